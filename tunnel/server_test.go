package main

import (
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// acceptingFD returns this process's descriptor that listens on a TCP port.
func acceptingFD(t *testing.T, port int) int {
	t.Helper()
	for fd := 3; fd < 1024; fd++ {
		accepts, _ := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
		address, _ := syscall.Getsockname(fd)
		if ipv4, isIPv4 := address.(*syscall.SockaddrInet4); accepts == 1 && isIPv4 && ipv4.Port == port {
			return fd
		}
	}
	t.Fatalf("nothing listens on port %d", port)
	return -1
}

func TestNoListenerEndsInSilence(t *testing.T) {
	carriers := []string{"tcp", "relay", "relay+tls", "relay+ws", "relay+wss", "relay+mws"}
	for _, carrier := range carriers {
		t.Run(carrier, func(t *testing.T) {
			addresses, logged := serveLogged(t, []string{carrier + "://127.0.0.1:0/127.0.0.1:1"}, nil)
			address, err := net.ResolveTCPAddr("tcp", addresses[0])
			if err != nil {
				t.Fatal(err)
			}
			// Accept fails from now on, by an error that does not call itself temporary.
			if err := syscall.Shutdown(acceptingFD(t, address.Port), syscall.SHUT_RD); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the error is logged", func() bool {
				return strings.Contains(logged.String(), "invalid argument")
			})
		})
	}
}

func TestUDPGoesOnAfterAReadError(t *testing.T) {
	listener, err := listenUDP(serviceSpec{address: "127.0.0.1:0", ttl: patience})
	if err != nil {
		t.Fatal(err)
	}
	logged := &logBuffer{}
	server, err := start(config{}, newLogger(logged))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	arrived := make(chan *udpSession, 1)
	server.keep(listener, func() {
		listener.serve(func(session *udpSession) { arrived <- session }, server.retry)
	})
	listener.SetReadDeadline(time.Now().Add(-time.Second)) // reads fail until it is taken back
	eventually(t, "the error is logged", func() bool {
		return strings.Contains(logged.String(), "i/o timeout")
	})
	listener.SetReadDeadline(time.Time{})
	conn, err := net.Dial("udp", listener.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mustWrite(t, conn, []byte("still there"))
	select {
	case session := <-arrived:
		expect(t, session, []byte("still there"))
	case <-time.After(patience):
		t.Fatal("the datagram did not arrive")
	}
}

// GOST 3.2.6 offers the post-quantum key exchange of Go 1.24 and later, 1.2 kB in its ClientHello.
func TestTheClientHelloOffersThePostQuantumKeyExchange(t *testing.T) {
	const x25519MLKEM768 = tls.CurveID(4588)
	for _, without := range []string{"go1.19", "go1.20", "go1.21", "go1.22", "go1.23"} {
		if strings.HasPrefix(runtime.Version(), without) {
			t.Skip(runtime.Version())
		}
	}
	config, err := serverTLS()
	if err != nil {
		t.Fatal(err)
	}
	hellos := make(chan *tls.ClientHelloInfo, 1)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		hellos <- hello
		return nil, nil
	}
	client, server := net.Pipe()
	go tls.Server(server, config).Handshake()
	go tls.Client(client, clientTLS(false)).Handshake()
	for _, curve := range (<-hellos).SupportedCurves {
		if curve == x25519MLKEM768 {
			return
		}
	}
	t.Error("it does not: is go.mod's go line older than 1.24?")
}
