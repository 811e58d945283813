package main

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
)

// GOST's relay protocol, version 1. Request and response have one shape:
//
//	VER(1)  CMD or STATUS(1)  FEALEN(2, big endian)  features(FEALEN)
//
// and a feature is TYPE(1) LEN(2) DATA(LEN).
const (
	protocolVersion  = 0x01
	headerLen        = 4
	featureHeaderLen = 3
)

// command is the low nibble of a request's second byte.
type command byte

const (
	commandConnect   command = 0x01 // 0x00 means the same, and is what v2 clients send
	commandBind      command = 0x02
	commandAssociate command = 0x03

	commandMask = 0x0f
	flagUDP     = 0x80
)

// status is a response's second byte.
type status byte

const (
	statusOK                 status = 0x00
	statusBadRequest         status = 0x01
	statusUnauthorized       status = 0x02
	statusForbidden          status = 0x03
	statusTimeout            status = 0x04
	statusServiceUnavailable status = 0x05
	statusHostUnreachable    status = 0x06
	statusNetworkUnreachable status = 0x07
	statusInternalError      status = 0x08
)

func (s status) Error() string {
	names := [...]string{"ok", "bad request", "unauthorized", "forbidden", "timeout",
		"service unavailable", "host unreachable", "network unreachable", "internal error"}
	if int(s) < len(names) {
		return fmt.Sprintf("the far end answered: %s (status %02x)", names[s], byte(s))
	}
	return fmt.Sprintf("the far end answered with an unknown status %02x", byte(s))
}

// Feature types and the values inside them.
const (
	featureUser    = 0x01 // ULEN(1) NAME PLEN(1) PASSWORD
	featureAddress = 0x02 // ATYP(1) ADDR PORT(2)
	featureTunnel  = 0x03 // UUID(16) FLAG(1) RSV(2) WEIGHT(1); older versions send the UUID alone
	featureNetwork = 0x04 // NETWORK(2)

	addressIPv4 = 0x01
	addressName = 0x03 // LEN(1) NAME
	addressIPv6 = 0x04

	networkTCP = 0x0000
	networkUDP = 0x0001

	tunnelIDLen = 16
)

var (
	errVersion   = errors.New("relay header: unknown version")
	errFeature   = errors.New("relay header: unknown feature")
	errTruncated = errors.New("relay header: a feature is cut short")
	errAddress   = errors.New("relay header: unknown address type")
)

// credentials are a user name and a password.
type credentials struct{ name, password string }

func (c *credentials) equal(other *credentials) bool {
	if other == nil {
		other = &credentials{}
	}
	name := subtle.ConstantTimeCompare([]byte(c.name), []byte(other.name))
	return name&subtle.ConstantTimeCompare([]byte(c.password), []byte(other.password)) == 1
}

// endpoint is an address feature: a name or an IP address, and a port.
type endpoint struct {
	host string
	port uint16
}

func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

// parseEndpoint reads host:port. The empty text is the empty endpoint, which
// says that the far end knows the target.
func parseEndpoint(text string) (endpoint, error) {
	if text == "" {
		return endpoint{}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return endpoint{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return endpoint{}, fmt.Errorf("port %q: %w", port, err)
	}
	return endpoint{host: host, port: uint16(number)}, nil
}

// request is what opens a stream through the relay. A nil or absent feature is
// one that was not sent.
type request struct {
	command command
	udpFlag bool
	network *uint16
	user    *credentials
	target  *endpoint
}

// isUDP tells whether datagrams are to be carried: v2 clients set the flag, v3
// clients the network feature as well.
func (r *request) isUDP() bool {
	return r.udpFlag || r.network != nil && *r.network == networkUDP
}

// newRequest is the request as v3 clients send it.
func newRequest(network, target string, user *credentials) (*request, error) {
	to, err := parseEndpoint(target)
	if err != nil {
		return nil, err
	}
	r := &request{command: commandConnect, user: user, target: &to}
	if network == "udp" {
		number := uint16(networkUDP)
		r.udpFlag, r.network = true, &number
	}
	return r, nil
}

// encode returns the request's bytes, features in the order of v3 clients.
func (r *request) encode() ([]byte, error) {
	second := byte(r.command)
	if r.udpFlag {
		second |= flagUDP
	}
	b := []byte{protocolVersion, second, 0, 0}
	if r.network != nil {
		b = append(b, featureNetwork, 0, 2, byte(*r.network>>8), byte(*r.network))
	}
	if r.user != nil {
		if len(r.user.name) > math.MaxUint8 || len(r.user.password) > math.MaxUint8 {
			return nil, errors.New("user or password longer than 255 bytes")
		}
		b = appendFeatureHeader(b, featureUser, 2+len(r.user.name)+len(r.user.password))
		b = append(append(b, byte(len(r.user.name))), r.user.name...)
		b = append(append(b, byte(len(r.user.password))), r.user.password...)
	}
	if r.target != nil {
		var err error
		if b, err = appendAddress(b, *r.target); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)-headerLen))
	return b, nil
}

func appendFeatureHeader(b []byte, kind byte, length int) []byte {
	return append(b, kind, byte(length>>8), byte(length))
}

func appendAddress(b []byte, to endpoint) ([]byte, error) {
	ip := net.ParseIP(to.host)
	switch ip4 := ip.To4(); {
	case ip4 != nil:
		b = append(appendFeatureHeader(b, featureAddress, 1+net.IPv4len+2), addressIPv4)
		b = append(b, ip4...)
	case ip != nil:
		b = append(appendFeatureHeader(b, featureAddress, 1+net.IPv6len+2), addressIPv6)
		b = append(b, ip...)
	default:
		if len(to.host) > math.MaxUint8 {
			return nil, errors.New("target's name longer than 255 bytes")
		}
		b = appendFeatureHeader(b, featureAddress, 1+1+len(to.host)+2)
		b = append(b, addressName, byte(len(to.host)))
		b = append(b, to.host...)
	}
	return append(b, byte(to.port>>8), byte(to.port)), nil
}

// readRequest reads one request and not a byte more.
func readRequest(r io.Reader) (*request, error) {
	second, features, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	req := &request{command: command(second & commandMask), udpFlag: second&flagUDP != 0}
	for len(features) > 0 {
		if len(features) < featureHeaderLen {
			return nil, errTruncated
		}
		kind, length := features[0], int(binary.BigEndian.Uint16(features[1:]))
		features = features[featureHeaderLen:]
		if len(features) < length {
			return nil, errTruncated
		}
		if err := req.readFeature(kind, features[:length]); err != nil {
			return nil, err
		}
		features = features[length:]
	}
	return req, nil
}

// readMessage reads what requests and responses have in common.
func readMessage(r io.Reader) (second byte, features []byte, err error) {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	if header[0] != protocolVersion {
		return 0, nil, errVersion
	}
	features = make([]byte, binary.BigEndian.Uint16(header[2:]))
	if _, err := io.ReadFull(r, features); err != nil {
		return 0, nil, noCleanEOF(err)
	}
	return header[1], features, nil
}

// noCleanEOF marks an end of stream in the middle of something as unexpected.
func noCleanEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *request) readFeature(kind byte, data []byte) error {
	switch kind {
	case featureUser:
		name, data, ok := cutCounted(data)
		if !ok {
			return errTruncated
		}
		password, _, ok := cutCounted(data)
		if !ok {
			return errTruncated
		}
		r.user = &credentials{name: string(name), password: string(password)}
	case featureAddress:
		to, err := decodeAddress(data)
		if err != nil {
			return err
		}
		r.target = &to
	case featureTunnel:
		// Tunnel identifiers route between GOST's reverse tunnels, which this relay leaves out.
		if len(data) < tunnelIDLen {
			return errTruncated
		}
	case featureNetwork:
		if len(data) < 2 {
			return errTruncated
		}
		network := binary.BigEndian.Uint16(data)
		r.network = &network
	default:
		return errFeature
	}
	return nil
}

func decodeAddress(data []byte) (endpoint, error) {
	if len(data) == 0 {
		return endpoint{}, errTruncated
	}
	kind, data := data[0], data[1:]
	var host string
	var hostLen int
	switch kind {
	case addressIPv4, addressIPv6:
		hostLen = net.IPv4len
		if kind == addressIPv6 {
			hostLen = net.IPv6len
		}
		if len(data) < hostLen {
			return endpoint{}, errTruncated
		}
		host = net.IP(data[:hostLen]).String()
		data = data[hostLen:]
	case addressName:
		name, rest, ok := cutCounted(data)
		if !ok {
			return endpoint{}, errTruncated
		}
		host, data = string(name), rest
		// A name may spell an IP address in any way; it is encoded as an address, which has one spelling.
		if ip := net.ParseIP(host); ip != nil {
			host = ip.String()
		}
	default:
		return endpoint{}, errAddress
	}
	if len(data) < 2 {
		return endpoint{}, errTruncated
	}
	return endpoint{host: host, port: binary.BigEndian.Uint16(data)}, nil
}

// cutCounted cuts a string off that one length byte precedes.
func cutCounted(data []byte) (head, rest []byte, ok bool) {
	if len(data) == 0 || len(data) < 1+int(data[0]) {
		return nil, nil, false
	}
	end := 1 + int(data[0])
	return data[1:end], data[end:], true
}

// encodeResponse returns a response's bytes.
func encodeResponse(s status) []byte {
	return []byte{protocolVersion, byte(s), 0, 0}
}

// readResponse reads one response; one that is not OK is an error of type status.
func readResponse(r io.Reader) error {
	second, _, err := readMessage(r)
	if err != nil {
		return err
	}
	if s := status(second); s != statusOK {
		return s
	}
	return nil
}
