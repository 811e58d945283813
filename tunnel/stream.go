package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
)

// Copy buffers, bytes: a stream's is GOST's since v3.2; a datagram must fit whole.
const (
	streamBuffer   = 32 * 1024
	datagramBuffer = 64 * 1024
)

// join copies between a and b until either ends, then closes both: GOST knows no
// half-closed relay. It returns why, nil for an end of stream.
func join(a, b io.ReadWriteCloser, bufferSize int) error {
	ends := make(chan error, 2)
	pump := func(to io.Writer, from io.Reader) {
		ends <- copyUntilEnd(to, from, make([]byte, bufferSize))
	}
	go pump(a, b)
	go pump(b, a)
	reason := <-ends
	a.Close()
	b.Close()
	<-ends
	return reason
}

// copyUntilEnd writes each read as one write. It is not io.Copy, which would
// splice between sockets where the tunnel it stands for does not.
func copyUntilEnd(to io.Writer, from io.Reader, buffer []byte) error {
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isOrdinaryEnd tells whether err needs no log line: the peer or we ourselves
// have closed the connection.
func isOrdinaryEnd(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe)
}

// lateHeader is a connection whose first write takes a relay header along, in
// the same write: a request rides on the first bytes of the application, an OK
// on the first bytes of the target.
type lateHeader struct {
	net.Conn
	header []byte // nil once sent
}

func (c *lateHeader) Write(b []byte) (int, error) {
	if c.header == nil {
		return c.Conn.Write(b)
	}
	message := append(c.header, b...)
	c.header = nil
	if _, err := c.Conn.Write(message); err != nil {
		return 0, err
	}
	return len(b), nil
}

// lateResponse is a connection whose first read takes the relay's response off.
type lateResponse struct {
	net.Conn
	answered bool
}

func (c *lateResponse) Read(b []byte) (int, error) {
	if !c.answered {
		if err := readResponse(c.Conn); err != nil {
			return 0, err
		}
		c.answered = true
	}
	return c.Conn.Read(b)
}

// datagrams carries datagrams over a stream, each with its length (2 bytes, big
// endian) in front. A write sends both at once; GOST sends them in two writes,
// which is the same stream of bytes.
type datagrams struct {
	net.Conn
	frame []byte // the writer's own, kept for the next write
}

func (c *datagrams) Write(b []byte) (int, error) {
	if len(b) > math.MaxUint16 {
		return 0, fmt.Errorf("a datagram of %d bytes does not fit into the relay's 16-bit length", len(b))
	}
	c.frame = append(c.frame[:0], byte(len(b)>>8), byte(len(b)))
	c.frame = append(c.frame, b...)
	if _, err := c.Conn.Write(c.frame); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Read reads one datagram; of one longer than b the rest is lost, as with a socket.
func (c *datagrams) Read(b []byte) (int, error) {
	var length [2]byte
	if _, err := io.ReadFull(c.Conn, length[:]); err != nil {
		return 0, err
	}
	size := int(binary.BigEndian.Uint16(length[:]))
	kept := size
	if kept > len(b) {
		kept = len(b)
	}
	if _, err := io.ReadFull(c.Conn, b[:kept]); err != nil {
		return 0, noCleanEOF(err)
	}
	if _, err := io.CopyN(io.Discard, c.Conn, int64(size-kept)); err != nil {
		return 0, noCleanEOF(err)
	}
	return kept, nil
}
