package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// patience bounds every wait of a test; none is expected to take it.
const patience = 10 * time.Second

// serve starts services (and hops) as the command line would, on loopback, and
// stops them with the test. It returns their addresses.
func serve(t testing.TB, listen, forward []string) []string {
	t.Helper()
	addresses, _ := serveLogged(t, listen, forward)
	return addresses
}

// serveLogged is serve and what was logged.
func serveLogged(t testing.TB, listen, forward []string) ([]string, *logBuffer) {
	t.Helper()
	config, err := parseConfig(listen, forward)
	if err != nil {
		t.Fatal(err)
	}
	logged := &logBuffer{}
	server, err := start(config, newLogger(logged))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	var addresses []string
	for _, address := range server.addresses {
		addresses = append(addresses, address.String())
	}
	return addresses, logged
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// eventually waits until condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// tcpTarget serves each connection with handle, then closes it.
func tcpTarget(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func echo(conn net.Conn) { io.Copy(conn, conn) }

// udpTarget echoes datagrams.
func udpTarget(t testing.TB) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, datagramBuffer)
		for {
			n, source, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			conn.WriteTo(buffer[:n], source)
		}
	}()
	return conn.LocalAddr().String()
}

// closedPort is an address that nothing listens on.
func closedPort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func dialTCP(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.TCPConn)
}

// dialWebSocket opens a plain WebSocket, as somebody else's client would.
func dialWebSocket(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: clientTLS(false)}
	ws, response, err := dialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols ||
		response.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Fatalf("handshake: %s, %v", response.Status, response.Header)
	}
	t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(patience))
	return ws
}

func mustWrite(t testing.TB, w io.Writer, b []byte) {
	t.Helper()
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly as much as want has.
func expect(t testing.TB, r io.Reader, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil {
		t.Fatalf("got % x (%v), want % x", got[:n], err, want)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got % x, want % x", got, want)
	}
}

// expectEnd reads until the stream ends, and wants nothing before that.
func expectEnd(t testing.TB, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Fatalf("got %q, error %v, want the end of the stream", rest, err)
	}
}

// expectNoLeak calls work and wants as many goroutines after it as before.
func expectNoLeak(t *testing.T, work func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	work()
	end := time.Now().Add(patience)
	for ; runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s",
				runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
