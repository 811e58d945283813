package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// acceptPause is how long to wait after a listener failed, so that running out of
// file descriptors does not become a busy loop.
const acceptPause = 100 * time.Millisecond

// server owns everything that the process listens on and carries.
type server struct {
	chain  chain
	log    *logger
	ctx    context.Context // ends what is being dialled
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	open   map[io.Closer]struct{} // listeners and connections
	work   sync.WaitGroup         // their goroutines

	addresses []net.Addr // of the services, in order: what port 0 became
}

// start opens every listener and serves. It returns an error, and leaves nothing
// behind, if one cannot be opened.
func start(c config, log *logger) (*server, error) {
	s := &server{chain: sharing(c.hops), log: log, open: make(map[io.Closer]struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var services []*service
	for i, spec := range c.services {
		one, err := s.listen(spec)
		if err != nil {
			for _, opened := range services {
				opened.Close()
			}
			s.Close()
			return nil, err
		}
		one.name = fmt.Sprintf("service-%d", i)
		services = append(services, one)
		s.addresses = append(s.addresses, one.address)
	}
	for _, one := range services {
		s.keep(one, one.serve)
		// In GOST's words, which those wait for who wait for GOST.
		log.info(fmt.Sprintf("listening on %s/%s", one.address, one.address.Network()),
			fields{"kind": "service", "service": one.name, "handler": one.handler, "listener": one.listener})
	}
	return s, nil
}

// sharing returns the hops, those that multiplex with the connection that all of
// this process's streams share.
func sharing(hops []hopSpec) chain {
	found := append(chain(nil), hops...)
	for i := range found {
		if found[i].transport.isMux() {
			found[i].shared = &sharedSession{}
		}
	}
	return found
}

// Close closes every listener and connection and waits until nothing runs.
func (s *server) Close() {
	s.cancel()
	for _, hop := range s.chain {
		if hop.shared != nil {
			hop.shared.Close()
		}
	}
	s.mu.Lock()
	s.closed = true
	for one := range s.open {
		one.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// keep runs work in a goroutine for as long as it takes, and closes what it
// works on when the server closes.
func (s *server) keep(on io.Closer, work func()) {
	if !s.register(on) {
		return
	}
	go func() {
		defer s.release(on)
		work()
	}()
}

// register adds what Close has to close and to wait for. It closes it at once,
// and says no, if the server is closed already.
func (s *server) register(one io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		one.Close()
		return false
	}
	s.open[one] = struct{}{}
	s.work.Add(1)
	return true
}

func (s *server) release(one io.Closer) {
	one.Close()
	s.mu.Lock()
	delete(s.open, one)
	s.mu.Unlock()
	s.work.Done()
}

// service is one open -L.
type service struct {
	io.Closer
	name     string
	handler  string
	listener string
	address  net.Addr
	serve    func() // until closed
}

// listen opens a service's listener.
func (s *server) listen(spec serviceSpec) (*service, error) {
	if spec.handler == handlerUDP {
		listener, err := listenUDP(spec)
		if err != nil {
			return nil, err
		}
		return &service{
			Closer: listener, handler: "udp", listener: "udp", address: listener.LocalAddr(),
			serve: func() { listener.serve(s.acceptSession(spec), s.retry) },
		}, nil
	}

	opened, err := net.Listen("tcp", spec.address)
	if err != nil {
		return nil, err
	}
	var listener net.Listener = patientListener{opened, s.retry}
	if spec.nagle {
		listener = nagleListener{listener}
	}
	one := &service{
		Closer: listener, handler: string(spec.handler), listener: "tcp", address: listener.Addr(),
	}
	if spec.handler == handlerTCP {
		one.serve = func() { s.acceptStreams(listener, s.forward(spec)) }
		return one, nil
	}
	relay := &relayHandler{spec: spec, chain: s.chain, headerTimeout: handshakeTimeout}
	one.listener = string(spec.transport)
	if spec.transport.isTLS() {
		config, err := serverTLS()
		if err != nil {
			listener.Close()
			return nil, err
		}
		listener = tls.NewListener(listener, config)
		one.Closer = listener
	}
	if !spec.transport.isWebSocket() {
		one.serve = func() { s.acceptStreams(listener, relay.handle) }
		return one, nil
	}
	handle := streamHandler(relay.handle)
	if spec.transport.isMux() {
		handle = s.eachStream(relay.handle)
	}
	web := newWebSocketServer(spec.path, s.log, func(conn net.Conn) {
		if s.register(conn) {
			defer s.release(conn)
			s.carry(conn, handle)
		}
	})
	one.Closer = &webListener{web, listener}
	one.serve = func() { web.Serve(listener) }
	return one, nil
}

// eachStream returns the handler of a connection that multiplexes: every stream of
// it is served as a connection of its own would be.
func (s *server) eachStream(handle streamHandler) streamHandler {
	return func(_ context.Context, conn net.Conn) error {
		return serveStreams(conn, func(stream net.Conn) {
			s.keep(stream, func() { s.carry(stream, handle) })
		})
	}
}

// nagleListener leaves Nagle's algorithm on, which Go turns off for every connection.
type nagleListener struct{ net.Listener }

func (l nagleListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, isTCP := conn.(*net.TCPConn); isTCP {
		tcp.SetNoDelay(false)
	}
	return conn, err
}

// webListener closes a WebSocket server whether or not it serves yet.
type webListener struct {
	*http.Server
	listener net.Listener
}

func (w *webListener) Close() error {
	w.listener.Close()
	return w.Server.Close()
}

// streamHandler serves one connection and closes it.
type streamHandler func(context.Context, net.Conn) error

// acceptStreams serves connections until the listener is closed.
func (s *server) acceptStreams(listener net.Listener, handle streamHandler) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.keep(conn, func() { s.carry(conn, handle) })
	}
}

// retry returns whether to ask a listener again that failed: it logs why and pauses,
// unless the listener or the server is closed.
func (s *server) retry(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	s.log.warn(err.Error(), nil) // out of file descriptors, or the peer is gone again
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(acceptPause):
		return true
	}
}

// patientListener accepts until retry says no. An http.Server would give up at any
// error that does not call itself temporary, and nobody would learn of it.
type patientListener struct {
	net.Listener
	retry func(error) bool
}

func (l patientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err == nil || !l.retry(err) {
			return conn, err
		}
	}
}

// carry serves one connection and logs what went wrong.
func (s *server) carry(conn net.Conn, handle streamHandler) {
	if err := handle(s.ctx, conn); !isOrdinaryEnd(err) {
		s.log.error(err.Error(), fields{
			"remote": conn.RemoteAddr().String(), "local": conn.LocalAddr().String()})
	}
}

// forward returns the handler of a near end: for each local connection, one
// connection of its own through the chain, dialled at once.
func (s *server) forward(spec serviceSpec) streamHandler {
	return func(ctx context.Context, conn net.Conn) error {
		out, err := s.chain.dial(ctx, "tcp", spec.target)
		if err != nil {
			return err
		}
		return join(conn, out, streamBuffer)
	}
}

// acceptSession is forward for datagrams.
func (s *server) acceptSession(spec serviceSpec) func(*udpSession) {
	return func(session *udpSession) {
		s.keep(session, func() {
			out, err := s.chain.dial(s.ctx, "udp", spec.target)
			if err == nil {
				err = join(session, out, datagramBuffer)
			}
			if !isOrdinaryEnd(err) {
				s.log.error(err.Error(), fields{"remote": session.source.String()})
			}
		})
	}
}
