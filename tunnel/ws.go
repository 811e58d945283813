package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

// webSocketBuffer is GOST's size of the read and write buffers. Towards the
// server it bounds a frame as well: each leaves in a write, and so in segments,
// of its own. That is part of what a tunnel does to TCP, and kept on purpose.
const webSocketBuffer = 4096

// wsConn is a WebSocket as a stream: a write is one binary message.
type wsConn struct {
	*websocket.Conn
	message io.Reader // the message being read, nil between messages
}

// Read fills b from one message, or takes the rest of one: like GOST, which
// reads whole messages, so that what was one write before the tunnel is one
// write after it; but without GOST's garbage.
func (c *wsConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		if c.message == nil {
			_, message, err := c.NextReader()
			if err != nil {
				return 0, endOfWebSocket(err)
			}
			c.message = message
		}
		n, err := io.ReadFull(c.message, b)
		if err == io.EOF || err == io.ErrUnexpectedEOF { // the message's end, not the stream's
			c.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, endOfWebSocket(err)
		}
	}
}

// endOfWebSocket turns the ways in which a peer ends a WebSocket into the end of
// a stream. GOST closes the TCP connection without a close frame, so that the
// library's "abnormal closure" is the normal one here.
func endOfWebSocket(err error) error {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return io.EOF
	}
	return err
}

func (c *wsConn) Write(b []byte) (int, error) {
	if err := c.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *wsConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// openWebSocket performs the client's handshake over an open connection.
// The hop's transport decides between ws and wss; mws and mwss are the same on this layer.
func openWebSocket(ctx context.Context, conn net.Conn, hop hopSpec) (net.Conn, error) {
	dialer := websocket.Dialer{
		ReadBufferSize:  webSocketBuffer,
		WriteBufferSize: webSocketBuffer,
		NetDialContext: func(context.Context, string, string) (net.Conn, error) {
			return conn, nil
		},
		TLSClientConfig: clientTLS(hop.secure),
	}
	address := url.URL{Scheme: "ws", Host: hop.address, Path: hop.path}
	if hop.transport.isTLS() {
		address.Scheme = "wss"
	}
	ws, response, err := dialer.DialContext(ctx, address.String(), nil)
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w: HTTP status %s", err, response.Status)
		}
		return nil, err
	}
	return &wsConn{Conn: ws}, nil
}

// newWebSocketServer returns an HTTP server that calls handle for each WebSocket
// opened on path, in that connection's own goroutine.
func newWebSocketServer(path string, log *logger, handle func(net.Conn)) *http.Server {
	upgrader := websocket.Upgrader{
		ReadBufferSize:  webSocketBuffer,
		WriteBufferSize: webSocketBuffer,
		CheckOrigin:     func(*http.Request) bool { return true }, // the clients are no browsers
	}
	// Not http.ServeMux: it takes a path that ends in / for all paths below it.
	upgrade := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			log.warn(err.Error(), fields{"remote": r.RemoteAddr})
			return
		}
		handle(&wsConn{Conn: ws})
	}
	return &http.Server{
		Handler:           http.HandlerFunc(upgrade),
		ReadHeaderTimeout: handshakeTimeout,
		ErrorLog:          log.standard(),
	}
}
