package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// relayHandler is the tunnel's far end: it reads a relay request, dials the
// target and carries the stream.
type relayHandler struct {
	spec          serviceSpec
	chain         chain
	headerTimeout time.Duration
}

// handle serves one connection from a tunnel client until either end closes.
// An error that the client is told is returned as well, for the log.
func (h *relayHandler) handle(ctx context.Context, conn net.Conn) error {
	// Timers and deadlines live in Go's runtime: this costs no system call.
	conn.SetReadDeadline(time.Now().Add(h.headerTimeout))
	request, err := readRequest(conn)
	if err != nil {
		// No answer: GOST closes on what it cannot read, a version or feature it does not know included.
		if errors.Is(err, io.EOF) {
			return nil // nothing was asked: a port check, or an application that sent nothing
		}
		return fmt.Errorf("reading a relay request: %w", err)
	}
	conn.SetReadDeadline(time.Time{})

	network, target, refusal := h.route(request)
	if refusal != nil {
		return refuse(conn, refusal.status, refusal)
	}
	out, err := h.chain.dial(ctx, network, target)
	if err != nil {
		unreachable := statusHostUnreachable
		if h.spec.target == "" {
			unreachable = statusNetworkUnreachable
		}
		return refuse(conn, unreachable, err)
	}

	if h.spec.noDelay {
		if _, err := conn.Write(encodeResponse(statusOK)); err != nil {
			out.Close()
			return err
		}
	} else {
		conn = &lateHeader{Conn: conn, header: encodeResponse(statusOK)}
	}
	if network == "udp" {
		return join(&datagrams{Conn: conn}, out, datagramBuffer)
	}
	return join(conn, out, streamBuffer)
}

// refusal is a request that this server does not fulfil.
type refusal struct {
	status status
	reason string
}

func (r *refusal) Error() string { return r.reason }

// route decides what to dial for a request. A server with a fixed target
// ignores the command and the address it is sent, as GOST v3 does.
func (h *relayHandler) route(r *request) (network, target string, refused *refusal) {
	if h.spec.user != nil && !h.spec.user.equal(r.user) {
		return "", "", &refusal{statusUnauthorized, "unauthorized"}
	}
	network = "tcp"
	switch {
	case r.isUDP():
		network = "udp"
	case r.network != nil && *r.network != networkTCP:
		return "", "", &refusal{statusBadRequest,
			fmt.Sprintf("network %#04x is not supported", *r.network)}
	}
	if h.spec.target != "" {
		return network, h.spec.target, nil
	}
	switch r.command {
	case 0, commandConnect:
	case commandBind:
		// GOST's answer unless ?bind=true
		return "", "", &refusal{statusForbidden, "BIND is not supported"}
	default:
		return "", "", &refusal{statusBadRequest,
			fmt.Sprintf("command %#02x is not supported", byte(r.command))}
	}
	if r.target == nil {
		return "", "", &refusal{statusBadRequest,
			"no target: this server has none and the request names none"}
	}
	return network, r.target.String(), nil
}

// refuse tells the client and returns the reason.
func refuse(conn net.Conn, s status, reason error) error {
	if _, err := conn.Write(encodeResponse(s)); err != nil {
		return fmt.Errorf("%v; and the client could not be told: %w", reason, err)
	}
	return fmt.Errorf("answered %02x: %w", byte(s), reason)
}
