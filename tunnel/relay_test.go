package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// farEnd starts a relay server over plain TCP, where its bytes are easiest to see.
func farEnd(t *testing.T, rest string) string {
	t.Helper()
	return serve(t, []string{"relay://127.0.0.1:0" + rest}, nil)[0]
}

func TestServerAcceptsV2AndV3Clients(t *testing.T) {
	target := tcpTarget(t, echo)
	const elsewhere = "01 01 00 0a 02 00 07 01 7f 00 00 01 00 01" // a v3 client that names 127.0.0.1:1
	headers := map[string]string{"v3": v3TCP, "v2": v2TCP, "address is ignored": elsewhere}
	for name, header := range headers {
		t.Run(name, func(t *testing.T) {
			conn := dialTCP(t, farEnd(t, "/"+target))
			mustWrite(t, conn, append(unhex(t, header), "hello"...))
			expect(t, conn, append(unhex(t, "01 00 00 00"), "hello"...))
			mustWrite(t, conn, []byte("again"))
			expect(t, conn, []byte("again"))
		})
	}
}

func TestServerTakesAHeaderThatArrivesInPieces(t *testing.T) {
	conn := dialTCP(t, farEnd(t, "/"+tcpTarget(t, echo)))
	for _, b := range append(unhex(t, v3TCP), 'x') {
		mustWrite(t, conn, []byte{b})
		time.Sleep(time.Millisecond)
	}
	expect(t, conn, unhex(t, "01 00 00 00 78"))
}

func TestServerCarriesDatagramsOfV2AndV3Clients(t *testing.T) {
	target := udpTarget(t)
	for name, header := range map[string]string{"v3": v3UDP, "v2": v2UDP} {
		t.Run(name, func(t *testing.T) {
			conn := dialTCP(t, farEnd(t, "/"+target))
			mustWrite(t, conn, unhex(t, header+"00 03 61 62 63"))
			expect(t, conn, unhex(t, "01 00 00 00 00 03 61 62 63"))
			mustWrite(t, conn, unhex(t, "00 01 64"))
			expect(t, conn, unhex(t, "00 01 64"))
		})
	}
}

func TestOKIsWithheldUntilTheTargetSends(t *testing.T) {
	speak := make(chan struct{})
	target := tcpTarget(t, func(conn net.Conn) {
		<-speak
		conn.Write([]byte("banner"))
		io.Copy(io.Discard, conn)
	})
	address := serve(t, []string{"relay+ws://127.0.0.1:0/" + target}, nil)[0]
	ws := dialWebSocket(t, "ws://"+address+"/ws")
	if err := ws.WriteMessage(websocket.BinaryMessage, unhex(t, v3TCP)); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(speak) })
	kind, message, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	want := append(unhex(t, "01 00 00 00"), "banner"...)
	if kind != websocket.BinaryMessage || !bytes.Equal(message, want) {
		t.Errorf("got message of type %d % x, want one binary message % x", kind, message, want)
	}
}

func TestOKIsSentAtOnceWithNoDelay(t *testing.T) {
	target := tcpTarget(t, func(conn net.Conn) { io.Copy(io.Discard, conn) }) // never says a word
	conn := dialTCP(t, farEnd(t, "/"+target+"?nodelay=true"))
	mustWrite(t, conn, unhex(t, v3TCP))
	expect(t, conn, unhex(t, "01 00 00 00"))
}

func TestServerRefusals(t *testing.T) {
	alive := tcpTarget(t, echo)
	to := func(address string) string { // a v3 request that names address
		request, err := newRequest("tcp", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := request.encode()
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(b)
	}
	for _, c := range []struct{ name, server, request, want string }{
		{"no target anywhere", "relay://127.0.0.1:0", v2TCP, "01 01 00 00"},
		{"unknown command", "relay://127.0.0.1:0", "01 05 00 00", "01 01 00 00"},
		{"associate", "relay://127.0.0.1:0", "01 03 00 00", "01 01 00 00"},
		{"unix network", "relay://127.0.0.1:0/" + alive, "01 01 00 05 04 00 02 00 10", "01 01 00 00"},
		{"no password", "relay://ann:pw@127.0.0.1:0/" + alive, v3TCP, "01 02 00 00"},
		{"wrong password", "relay://ann:pw@127.0.0.1:0/" + alive,
			"01 01 00 0a 01 00 07 03 616e6e 02 7078", "01 02 00 00"},
		{"bind", "relay://127.0.0.1:0", "01 02 00 00", "01 03 00 00"},
		{"fixed target is down", "relay://127.0.0.1:0/" + closedPort(t), v3TCP, "01 06 00 00"},
		{"named target is down", "relay://127.0.0.1:0", to(closedPort(t)), "01 07 00 00"},
		{"version 2", "relay://127.0.0.1:0/" + alive, "02 01 00 00", ""},
		{"unknown feature", "relay://127.0.0.1:0/" + alive, "01 01 00 03 05 00 00", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			addresses, logged := serveLogged(t, []string{c.server}, nil)
			conn := dialTCP(t, addresses[0])
			mustWrite(t, conn, unhex(t, c.request))
			expect(t, conn, unhex(t, c.want))
			expectEnd(t, conn)
			eventually(t, "a log line", func() bool {
				return strings.Contains(logged.String(), `"level":"error"`)
			})
		})
	}
}

func TestServerAcceptsTheRightPassword(t *testing.T) {
	conn := dialTCP(t, serve(t, []string{"relay://ann:pw@127.0.0.1:0/" + tcpTarget(t, echo)}, nil)[0])
	mustWrite(t, conn, unhex(t, "01 01 00 0a 01 00 07 03 616e6e 02 7077 78"))
	expect(t, conn, unhex(t, "01 00 00 00 78"))
}

func TestServerDialsTheNamedTargetIfItHasNone(t *testing.T) {
	target := tcpTarget(t, echo)
	request, _ := newRequest("tcp", target, nil)
	header, _ := request.encode()
	conn := dialTCP(t, farEnd(t, ""))
	mustWrite(t, conn, append(header, 'x'))
	expect(t, conn, unhex(t, "01 00 00 00 78"))
}

func TestServerDoesNotWaitForAHeaderForEver(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	h := &relayHandler{spec: serviceSpec{target: "127.0.0.1:1"}, headerTimeout: 20 * time.Millisecond}
	done := make(chan error, 1)
	go func() { done <- h.handle(context.Background(), far) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(patience):
		t.Fatal("still waiting")
	}
}

func TestOtherPathsAndPlainHTTPAreRefused(t *testing.T) {
	address := serve(t, []string{"relay+ws://127.0.0.1:0/" + tcpTarget(t, echo) + "?path=/t"}, nil)[0]
	dialWebSocket(t, "ws://"+address+"/t")
	_, response, err := websocket.DefaultDialer.Dial("ws://"+address+"/ws", nil)
	if err == nil || response.StatusCode != 404 {
		t.Errorf("got %v, want HTTP status 404", err)
	}
}
