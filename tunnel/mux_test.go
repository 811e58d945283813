package main

import (
	"bytes"
	"context"
	"net"
	"syscall"
	"testing"
	"time"
)

// countingTarget forwards each connection to address and counts them.
func countingTarget(t *testing.T, address string) (hop string, connections func() int) {
	t.Helper()
	counted := make(chan struct{}, 64)
	hop = tcpTarget(t, func(conn net.Conn) {
		counted <- struct{}{}
		out, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		join(conn, out, streamBuffer)
	})
	return hop, func() int { return len(counted) }
}

func TestAllStreamsOfAMuxShareOneConnection(t *testing.T) {
	for carrier, want := range map[string]int{"relay+ws": 8, "relay+mws": 1, "relay+mwss": 1} {
		t.Run(carrier, func(t *testing.T) {
			far := serve(t, []string{carrier + "://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
			hop, connections := countingTarget(t, far)
			near := serve(t, []string{"tcp://127.0.0.1:0"}, []string{carrier + "://" + hop})[0]
			for i := 0; i < 8; i++ {
				conn := dialTCP(t, near)
				mustWrite(t, conn, []byte{byte(i)})
				expect(t, conn, []byte{byte(i)})
			}
			if got := connections(); got != want {
				t.Errorf("8 streams made %d connections to the far end, want %d", got, want)
			}
		})
	}
}

// TestMuxFramesAreSmuxVersion1 looks at the bytes inside the WebSocket: VER CMD LEN(2)
// STREAM(4), little endian, as xtaci/smux's README has them.
func TestMuxFramesAreSmuxVersion1(t *testing.T) {
	near := serve(t, []string{"relay+mws://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
	ws := dialWebSocket(t, "ws://"+near+"/ws")
	stream := &wsConn{Conn: ws}
	header := unhex(t, v3TCP)
	mustWrite(t, stream, unhex(t, "01 00 0000 03000000")) // SYN of stream 3
	psh := append(unhex(t, "01 02"), byte(len(header)+2), 0, 3, 0, 0, 0)
	mustWrite(t, stream, append(append(psh, header...), "hi"...))
	ws.SetReadDeadline(time.Now().Add(patience))
	expect(t, stream, append(unhex(t, "01 02 0600 03000000 01 00 00 00"), "hi"...))
}

func TestAMuxIsDialledAgainWhenItsConnectionEnds(t *testing.T) {
	far := serve(t, []string{"relay+mws://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
	conns := make(chan net.Conn, 8)
	hop := tcpTarget(t, func(conn net.Conn) {
		conns <- conn
		out, err := net.Dial("tcp", far)
		if err != nil {
			t.Error(err)
			return
		}
		join(conn, out, streamBuffer)
	})
	near := serve(t, []string{"tcp://127.0.0.1:0"}, []string{"relay+mws://" + hop})[0]
	first := dialTCP(t, near)
	mustWrite(t, first, []byte("one"))
	expect(t, first, []byte("one"))
	(<-conns).Close()
	expectEnd(t, first)
	eventually(t, "a stream over a new connection", func() bool {
		conn := dialTCP(t, near)
		mustWrite(t, conn, []byte("two"))
		back := make([]byte, 3)
		n, _ := conn.Read(back)
		return bytes.Equal(back[:n], []byte("two"))
	})
}

func TestNagleIsOffUnlessAskedFor(t *testing.T) {
	for _, c := range []struct {
		query string
		want  int
	}{{"", 1}, {"?nagle=true", 0}} {
		config, err := parseConfig(
			[]string{"tcp://127.0.0.1:0"}, []string{"relay://" + tcpTarget(t, echo) + c.query})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := sharing(config.hops).connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got := noDelayOf(t, conn.(*net.TCPConn)); got != c.want {
			t.Errorf("%q: TCP_NODELAY is %d, want %d", c.query, got, c.want)
		}
		conn.Close()
	}
}

func noDelayOf(t *testing.T, conn *net.TCPConn) int {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	value := -1
	raw.Control(func(fd uintptr) {
		value, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}
