package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// tunnelTo starts both ends of a tunnel and returns the near end's address.
func tunnelTo(t testing.TB, near, carrier, target string) string {
	t.Helper()
	far := serve(t, []string{carrier + "://127.0.0.1:0/" + target}, nil)[0]
	return serve(t, []string{near}, []string{carrier + "://" + far})[0]
}

var carriers = []string{"relay", "relay+tls", "relay+ws", "relay+wss", "relay+mws", "relay+mwss"}

func TestLargeTransfersArriveWhole(t *testing.T) {
	const size = 8 << 20
	data := func(seed int64) io.Reader { return io.LimitReader(rand.New(rand.NewSource(seed)), size) }
	sum := func(r io.Reader) string {
		hash := sha256.New()
		n, err := io.Copy(hash, r)
		return fmt.Sprintf("%d bytes, sha256 %x, error %v", n, hash.Sum(nil), err)
	}
	wantUp, wantDown := sum(data(1)), sum(data(2))
	for _, carrier := range carriers {
		t.Run(carrier, func(t *testing.T) {
			gotUp := make(chan string, 1)
			target := tcpTarget(t, func(conn net.Conn) {
				go io.Copy(conn, data(2))
				gotUp <- sum(io.LimitReader(conn, size))
				io.Copy(io.Discard, conn) // until the client is done
			})
			conn := dialTCP(t, tunnelTo(t, "tcp://127.0.0.1:0", carrier, target))
			conn.SetDeadline(time.Now().Add(6 * patience))
			go io.Copy(conn, data(1))
			if got := sum(io.LimitReader(conn, size)); got != wantDown {
				t.Errorf("down: got %s, want %s", got, wantDown)
			}
			if got := <-gotUp; got != wantUp {
				t.Errorf("up: got %s, want %s", got, wantUp)
			}
		})
	}
}

func TestEndOfStreamClosesTheWholeRelay(t *testing.T) {
	for _, carrier := range carriers {
		t.Run(carrier+", application's end", func(t *testing.T) {
			got := make(chan string, 1)
			target := tcpTarget(t, func(conn net.Conn) {
				all, _ := io.ReadAll(conn)
				got <- string(all)
			})
			conn := dialTCP(t, tunnelTo(t, "tcp://127.0.0.1:0", carrier, target))
			mustWrite(t, conn, []byte("all of it"))
			conn.CloseWrite()
			expectEnd(t, conn) // the other half is closed as well
			if all := <-got; all != "all of it" {
				t.Errorf("the target got %q", all)
			}
		})
		t.Run(carrier+", target's end", func(t *testing.T) {
			target := tcpTarget(t, func(conn net.Conn) {
				io.ReadFull(conn, make([]byte, 2))
				conn.Write([]byte("bye"))
			})
			conn := dialTCP(t, tunnelTo(t, "tcp://127.0.0.1:0", carrier, target))
			mustWrite(t, conn, []byte("hi"))
			expect(t, conn, []byte("bye"))
			expectEnd(t, conn)
		})
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	const streams, size = 128, 64 << 10
	for _, carrier := range carriers {
		t.Run(carrier, func(t *testing.T) {
			near := tunnelTo(t, "tcp://127.0.0.1:0", carrier, tcpTarget(t, echo))
			var all sync.WaitGroup
			for i := 0; i < streams; i++ {
				conn := dialTCP(t, near)
				conn.SetDeadline(time.Now().Add(6 * patience))
				data := make([]byte, size)
				rand.New(rand.NewSource(int64(i))).Read(data)
				all.Add(1)
				go func() {
					defer all.Done()
					go conn.Write(data)
					back := make([]byte, size)
					if n, err := io.ReadFull(conn, back); err != nil || !bytes.Equal(back, data) {
						t.Errorf("%d of %d bytes came back, error %v", n, size, err)
					}
				}()
			}
			all.Wait()
		})
	}
}

// askUntilAnswered sends a datagram again every second, as UDP's users must: without keepalive an
// association ends with its answer, and a datagram that comes while it does is lost.
func askUntilAnswered(t *testing.T, conn net.Conn, data []byte) ([]byte, error) {
	t.Helper()
	back := make([]byte, datagramBuffer)
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		mustWrite(t, conn, data)
		conn.SetReadDeadline(time.Now().Add(time.Second))
		var n int
		if n, err = conn.Read(back); err == nil {
			return back[:n], nil
		}
	}
	return nil, err
}

func TestDatagramsGoThereAndBack(t *testing.T) {
	for _, carrier := range carriers {
		for _, keepalive := range []string{"true", "false"} {
			t.Run(carrier+", keepalive="+keepalive, func(t *testing.T) {
				near := tunnelTo(t, "udp://127.0.0.1:0?keepalive="+keepalive, carrier, udpTarget(t))
				conn, err := net.Dial("udp", near)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				for _, size := range []int{1, 1472, 4096, 32 << 10, 65000} {
					data := bytes.Repeat([]byte{byte(size)}, size)
					if back, err := askUntilAnswered(t, conn, data); !bytes.Equal(back, data) {
						t.Fatalf("%d bytes sent, %d came back, error %v", size, len(back), err)
					}
				}
			})
		}
	}
}

func TestIdleDatagramSessionsEnd(t *testing.T) {
	far := serve(t, []string{"relay://127.0.0.1:0/" + udpTarget(t)}, nil)[0]
	ended := make(chan struct{})
	hop := tcpTarget(t, func(conn net.Conn) {
		out, err := net.Dial("tcp", far)
		if err != nil {
			t.Error(err)
			return
		}
		join(conn, out, streamBuffer)
		close(ended)
	})
	near := serve(t,
		[]string{"udp://127.0.0.1:0?keepalive=true&ttl=50ms"}, []string{"relay://" + hop})[0]
	conn, err := net.Dial("udp", near)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	mustWrite(t, conn, []byte("x"))
	expect(t, conn, []byte("x"))
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the session is still open")
	}
}

func TestHopsCanBeChained(t *testing.T) {
	last := serve(t, []string{"relay+wss://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
	first := serve(t, []string{"relay+ws://127.0.0.1:0"}, nil)[0] // goes wherever it is told
	near := serve(t, []string{"tcp://127.0.0.1:0"},
		[]string{"relay+ws://" + first, "relay+wss://" + last})[0]
	conn := dialTCP(t, near)
	mustWrite(t, conn, []byte("through two"))
	expect(t, conn, []byte("through two"))
}

func TestForwardingWithoutATunnel(t *testing.T) {
	near := serve(t, []string{"tcp://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
	conn := dialTCP(t, near)
	mustWrite(t, conn, []byte("x"))
	expect(t, conn, []byte("x"))
}

func TestSecureRefusesASelfSignedCertificate(t *testing.T) {
	far := serve(t, []string{"relay+wss://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
	addresses, logged := serveLogged(t,
		[]string{"tcp://127.0.0.1:0"}, []string{"relay+wss://" + far + "?secure=true"})
	conn := dialTCP(t, addresses[0])
	expectEnd(t, conn)
	eventually(t, "a log line", func() bool { return strings.Contains(logged.String(), "x509") })
}

func TestCertificateIsSelfSignedECDSAOnP256(t *testing.T) {
	config, err := serverTLS()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if certificate.SignatureAlgorithm != x509.ECDSAWithSHA256 {
		t.Errorf("signed with %v", certificate.SignatureAlgorithm)
	}
	err = certificate.CheckSignature(certificate.SignatureAlgorithm,
		certificate.RawTBSCertificate, certificate.Signature)
	if err != nil {
		t.Error(err)
	}
}

func TestClosingTheServerEndsEverything(t *testing.T) {
	// Whatever the target accepts it keeps open: only the server's Close can end the streams.
	target := tcpTarget(t, echo)
	for _, carrier := range carriers {
		t.Run(carrier, func(t *testing.T) {
			expectNoLeak(t, func() {
				log := newLogger(io.Discard)
				farConfig, err := parseConfig([]string{carrier + "://127.0.0.1:0/" + target}, nil)
				if err != nil {
					t.Fatal(err)
				}
				far, err := start(farConfig, log)
				if err != nil {
					t.Fatal(err)
				}
				nearConfig, err := parseConfig([]string{"tcp://127.0.0.1:0", "udp://127.0.0.1:0"},
					[]string{carrier + "://" + far.addresses[0].String()})
				if err != nil {
					t.Fatal(err)
				}
				near, err := start(nearConfig, log)
				if err != nil {
					t.Fatal(err)
				}
				var conns []net.Conn
				for i := 0; i < 16; i++ {
					conn := dialTCP(t, near.addresses[0].String())
					mustWrite(t, conn, []byte("x"))
					expect(t, conn, []byte("x"))
					conns = append(conns, conn)
				}
				datagram, err := net.Dial("udp", near.addresses[1].String())
				if err != nil {
					t.Fatal(err)
				}
				mustWrite(t, datagram, []byte("x"))
				datagram.Close()
				near.Close()
				far.Close()
				for _, conn := range conns {
					if _, err := conn.Read(make([]byte, 1)); err == nil {
						t.Error("a stream is still open")
					}
					conn.Close()
				}
			})
		})
	}
}

// TestMessagesOfAnyShapeAreOneStream: the reader may want less or more than a
// message, and messages may be empty, of text or in fragments.
func TestMessagesOfAnyShapeAreOneStream(t *testing.T) {
	near := serve(t, []string{"relay+ws://127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0]
	ws := dialWebSocket(t, "ws://"+near+"/ws")
	big := bytes.Repeat([]byte("0123456789"), 10_000)
	header := unhex(t, v3TCP)
	for _, message := range [][]byte{header[:3], {}, header[3:], []byte("a"), {}, big, []byte("z")} {
		if err := ws.WriteMessage(websocket.TextMessage, message); err != nil {
			t.Fatal(err)
		}
	}
	ws.SetReadDeadline(time.Now().Add(patience))
	want := append(append(unhex(t, "01 00 00 00"), 'a'), append(big, 'z')...)
	expect(t, &wsConn{Conn: ws}, want)
}

func TestLogTellsErrorsFromEnds(t *testing.T) {
	for err, ordinary := range map[error]bool{nil: true, io.EOF: true, net.ErrClosed: true,
		io.ErrUnexpectedEOF: false, errors.New("x"): false, statusForbidden: false} {
		if isOrdinaryEnd(err) != ordinary {
			t.Errorf("isOrdinaryEnd(%v) = %v", err, !ordinary)
		}
	}
}
