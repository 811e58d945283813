package main

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// udpQueue is how many datagrams of one source may wait for the relay before
// more are dropped; GOST's number.
const udpQueue = 128

// udpListener turns the datagrams that arrive on one socket into sessions, one
// for each source address.
type udpListener struct {
	*net.UDPConn
	keepalive bool
	ttl       time.Duration

	mu       sync.Mutex
	sessions map[netip.AddrPort]*udpSession
}

func listenUDP(spec serviceSpec) (*udpListener, error) {
	conn, err := net.ListenPacket("udp", spec.address)
	if err != nil {
		return nil, err
	}
	return &udpListener{
		UDPConn:   conn.(*net.UDPConn),
		keepalive: spec.keepalive,
		ttl:       spec.ttl,
		sessions:  make(map[netip.AddrPort]*udpSession),
	}, nil
}

// serve reads datagrams until retry says no to an error, and calls accept for each
// new session; accept must not block.
func (l *udpListener) serve(accept func(*udpSession), retry func(error) bool) {
	buffer := make([]byte, datagramBuffer)
	for {
		n, source, err := l.ReadFromUDPAddrPort(buffer)
		if err != nil {
			if retry(err) {
				continue
			}
			return
		}
		datagram := append([]byte(nil), buffer[:n]...)
		session, isNew := l.session(source)
		select {
		case session.arrived <- datagram:
		default: // full: drop, as a socket does
		}
		if isNew {
			accept(session)
		}
	}
}

func (l *udpListener) session(source netip.AddrPort) (session *udpSession, isNew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if session, found := l.sessions[source]; found {
		return session, false
	}
	session = &udpSession{
		listener: l,
		source:   source,
		arrived:  make(chan []byte, udpQueue),
		closed:   make(chan struct{}),
	}
	session.touch()
	session.idle = time.AfterFunc(l.ttl, session.expire)
	l.sessions[source] = session
	return session, true
}

// udpSession is the datagrams to and from one source; each read and write is one.
type udpSession struct {
	listener *udpListener
	source   netip.AddrPort
	arrived  chan []byte
	idle     *time.Timer
	lastUsed atomic.Int64 // nanoseconds since started
	closing  sync.Once
	closed   chan struct{}
}

// started anchors lastUsed to the monotonic clock.
var started = time.Now()

func (s *udpSession) touch() { s.lastUsed.Store(int64(time.Since(started))) }

// expire closes the session if it was idle for the listener's ttl, else looks
// again when it may have been: one timer for a session, whatever its rate.
func (s *udpSession) expire() {
	idle := time.Since(started) - time.Duration(s.lastUsed.Load())
	if idle >= s.listener.ttl {
		s.Close()
		return
	}
	s.listener.mu.Lock() // not before s.idle is set, not after Close
	defer s.listener.mu.Unlock()
	select {
	case <-s.closed:
	default:
		s.idle.Reset(s.listener.ttl - idle)
	}
}

func (s *udpSession) Read(b []byte) (int, error) {
	select {
	case datagram := <-s.arrived:
		s.touch()
		return copy(b, datagram), nil
	case <-s.closed:
		return 0, io.EOF
	}
}

// Write sends one datagram to the source. Without keepalive it ends the session,
// as GOST does by default: a reply is taken for the whole answer.
func (s *udpSession) Write(b []byte) (int, error) {
	s.touch()
	n, err := s.listener.WriteToUDPAddrPort(b, s.source)
	if !s.listener.keepalive {
		s.Close()
	}
	return n, err
}

// Close ends the session; the source's next datagram starts a new one.
func (s *udpSession) Close() error {
	s.closing.Do(func() {
		s.listener.mu.Lock()
		defer s.listener.mu.Unlock()
		delete(s.listener.sessions, s.source)
		s.idle.Stop()
		close(s.closed)
	})
	return nil
}
