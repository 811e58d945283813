package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// nearEnd starts a tunnel client in front of the given hop.
func nearEnd(t *testing.T, listen, hop string) string {
	t.Helper()
	return serve(t, []string{listen}, []string{hop})[0]
}

// recordedHop is a far end that only records: what arrives can be read from it.
func recordedHop(t *testing.T) (address string, accepted <-chan net.Conn) {
	t.Helper()
	conns := make(chan net.Conn, 16)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	address = tcpTarget(t, func(conn net.Conn) {
		conn.SetDeadline(time.Now().Add(patience))
		conns <- conn
		<-release
	})
	return address, conns
}

func TestClientsHeaderRidesOnTheFirstWrite(t *testing.T) {
	hop, accepted := recordedHop(t)
	app := dialTCP(t, nearEnd(t, "tcp://127.0.0.1:0", "relay://"+hop))
	far := <-accepted // dialled on accept, before the application sends

	far.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := far.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("the header did not wait for data: %d bytes, %v", n, err)
	}
	far.SetReadDeadline(time.Now().Add(patience))
	mustWrite(t, app, []byte("hello"))
	expect(t, far, append(unhex(t, v3TCP), "hello"...))
	mustWrite(t, app, []byte("again"))
	expect(t, far, []byte("again"))

	mustWrite(t, far, append(unhex(t, "01 00 00 00"), "reply"...))
	expect(t, app, []byte("reply"))
}

func TestClientSendsItsTargetAndUser(t *testing.T) {
	hop, accepted := recordedHop(t)
	app := dialTCP(t, nearEnd(t, "tcp://127.0.0.1:0/1.2.3.4:53", "relay://ann:pw@"+hop))
	mustWrite(t, app, []byte("x"))
	expect(t, <-accepted, unhex(t,
		"01 01 00 14 01 00 07 03 616e6e 02 7077 02 00 07 01 01 02 03 04 00 35 78"))
}

func TestNoDelayClientSendsAtOnceAndAwaitsTheResponse(t *testing.T) {
	hop, accepted := recordedHop(t)
	app := dialTCP(t, nearEnd(t, "tcp://127.0.0.1:0", "relay://"+hop+"?nodelay=true"))
	far := <-accepted
	mustWrite(t, app, []byte("hello"))
	expect(t, far, unhex(t, v3TCP))
	far.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := far.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("data did not wait for the response: %d bytes, %v", n, err)
	}
	far.SetReadDeadline(time.Now().Add(patience))
	mustWrite(t, far, unhex(t, "01 00 00 00"))
	expect(t, far, []byte("hello"))
}

func TestClientSendsDatagramsWithTheirLength(t *testing.T) {
	hop, accepted := recordedHop(t)
	near := nearEnd(t, "udp://127.0.0.1:0?keepalive=true", "relay://"+hop)
	app, err := net.Dial("udp", near)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	app.SetDeadline(time.Now().Add(patience))
	mustWrite(t, app, []byte("abc"))
	far := <-accepted
	expect(t, far, unhex(t, v3UDP+"00 03 61 62 63"))
	mustWrite(t, app, []byte("d"))
	expect(t, far, unhex(t, "00 01 64"))
	mustWrite(t, far, unhex(t, "01 00 00 00 00 02 65 66"))
	expect(t, app, []byte("ef"))
}

func TestClientLogsTheFarEndsRefusal(t *testing.T) {
	hop := serve(t, []string{"relay+ws://127.0.0.1:0/" + closedPort(t)}, nil)[0]
	addresses, logged := serveLogged(t, []string{"tcp://127.0.0.1:0"}, []string{"relay+ws://" + hop})
	app := dialTCP(t, addresses[0])
	mustWrite(t, app, []byte("x"))
	expectEnd(t, app)
	eventually(t, "a log line", func() bool {
		return strings.Contains(logged.String(), "host unreachable (status 06)")
	})
}

// TestWebSocketFramesAreGOSTs looks at the bytes below the WebSocket.
func TestWebSocketFramesAreGOSTs(t *testing.T) {
	type seen struct {
		path, protocol, extensions string
		raw                        []byte
	}
	frames := make(chan seen, 1)
	const sent = 10000
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		raw := make([]byte, 8+4096+8+4096+8+sent+11-2*4096)
		io.ReadFull(ws.NetConn(), raw)
		frames <- seen{r.URL.Path, r.Header.Get("Sec-WebSocket-Protocol"),
			r.Header.Get("Sec-WebSocket-Extensions"), raw}
	}))
	defer server.Close()

	app := dialTCP(t, nearEnd(t, "tcp://127.0.0.1:0", "relay+ws://"+server.Listener.Addr().String()))
	mustWrite(t, app, bytes.Repeat([]byte{0}, sent))
	got := <-frames
	if got.path != "/ws" || got.protocol != "" || got.extensions != "" {
		t.Errorf("handshake: path %q, protocol %q, extensions %q", got.path, got.protocol, got.extensions)
	}
	// One message, for one read of the application's 10000 bytes: a binary frame
	// and continuations, masked, of 4096 bytes at most.
	at := 0
	for i, want := range []string{"02 fe 10 00", "00 fe 10 00", "80 fe 07 1b"} {
		if header := got.raw[at : at+4]; !bytes.Equal(header, unhex(t, want)) {
			t.Errorf("frame %d: header % x, want %s", i, header, want)
		}
		at += 8 + 4096
	}
}

func TestServerSendsOneFrameForOneWrite(t *testing.T) {
	const size = 20000
	target := tcpTarget(t, func(conn net.Conn) {
		conn.Write(make([]byte, size))
		io.Copy(io.Discard, conn)
	})
	address := serve(t, []string{"relay+ws://127.0.0.1:0/" + target}, nil)[0]
	ws := dialWebSocket(t, "ws://"+address+"/ws")
	if err := ws.WriteMessage(websocket.BinaryMessage, unhex(t, v3TCP)); err != nil {
		t.Fatal(err)
	}
	ws.NetConn().SetReadDeadline(time.Now().Add(patience))
	expect(t, ws.NetConn(), unhex(t, "82 7e 4e 24")) // final, binary, unmasked, 20004 bytes
	expect(t, ws.NetConn(), unhex(t, "01 00 00 00 00 00"))
}

func TestEachStreamHasItsOwnConnection(t *testing.T) {
	hop, accepted := recordedHop(t)
	near := nearEnd(t, "tcp://127.0.0.1:0", "relay://"+hop)
	for i := 0; i < 3; i++ {
		dialTCP(t, near)
		select {
		case <-accepted:
		case <-time.After(patience):
			t.Fatalf("stream %d opened no connection", i)
		}
	}
}

func TestNagleIsOff(t *testing.T) {
	conn, err := chain(nil).dial(context.Background(), "tcp", tcpTarget(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		on, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
		if err != nil || on == 0 {
			t.Errorf("TCP_NODELAY is %d, error %v", on, err)
		}
	})
}
