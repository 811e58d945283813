package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// transport is what carries the relay protocol between the two tunnel ends.
type transport string

const (
	transportTCP  transport = "tcp"
	transportWS   transport = "ws"
	transportWSS  transport = "wss"
	transportTLS  transport = "tls"
	transportMWS  transport = "mws" // WebSocket, all streams on one connection
	transportMWSS transport = "mwss"
)

// isWebSocket, isTLS and isMux tell what a transport is made of.
func (t transport) isWebSocket() bool {
	return t == transportWS || t == transportWSS || t == transportMWS || t == transportMWSS
}
func (t transport) isTLS() bool {
	return t == transportTLS || t == transportWSS || t == transportMWSS
}
func (t transport) isMux() bool { return t == transportMWS || t == transportMWSS }

// handler is what a service does with the connections it accepts.
type handler string

const (
	handlerRelay handler = "relay" // the far end: speaks the relay protocol
	handlerTCP   handler = "tcp"   // the near end: forwards local connections
	handlerUDP   handler = "udp"   // the near end: forwards local datagrams
)

// GOST's defaults.
const (
	defaultPath   = "/ws"
	defaultUDPTTL = 5 * time.Second
)

// config is everything that the command line says.
type config struct {
	services []serviceSpec
	hops     []hopSpec
}

// serviceSpec is one -L.
type serviceSpec struct {
	handler   handler
	transport transport // of handlerRelay
	address   string    // host:port to listen on
	target    string    // host:port to forward to, or empty: the client or the far end decides
	user      *credentials
	path      string        // of ws and wss
	noDelay   bool          // handlerRelay: answer at once, not with the target's first bytes
	keepalive bool          // handlerUDP: a session outlives its first reply
	ttl       time.Duration // handlerUDP: an idle session ends after this
	nagle     bool          // handlerRelay: leave TCP_NODELAY off on what it accepts
}

// hopSpec is one -F.
type hopSpec struct {
	transport transport
	address   string // host:port of the next tunnel end
	user      *credentials
	path      string // of ws and wss
	noDelay   bool   // send the request and await the response before any data
	secure    bool   // tls, wss, mwss: verify the certificate
	nagle     bool   // leave TCP_NODELAY off on what it dials

	shared *sharedSession // mws, mwss: made by start
}

// parseConfig reads the values of -L and -F. What it does not know it refuses,
// where GOST would silently take something else: an experiment whose tunnel is
// not the one that was named is worth less than none.
func parseConfig(listen, forward []string) (config, error) {
	var c config
	if len(listen) == 0 {
		return config{}, errors.New("no -L given: nothing to listen on (see relay -h)")
	}
	for _, text := range forward {
		hop, err := parseHop(text)
		if err != nil {
			return config{}, fmt.Errorf("-F %q: %w", text, err)
		}
		c.hops = append(c.hops, hop)
	}
	for _, text := range listen {
		service, err := parseService(text)
		if err != nil {
			return config{}, fmt.Errorf("-L %q: %w", text, err)
		}
		if service.handler != handlerRelay && service.target == "" && len(c.hops) == 0 {
			return config{}, fmt.Errorf(
				"-L %q: nowhere to forward to: add a target (%s/HOST:PORT) or a hop (-F)", text, text)
		}
		c.services = append(c.services, service)
	}
	return c, nil
}

func parseService(text string) (serviceSpec, error) {
	u, err := parseNode(text)
	if err != nil {
		return serviceSpec{}, err
	}
	s := serviceSpec{address: u.Host, user: credentialsOf(u), path: defaultPath, ttl: defaultUDPTTL}
	switch u.Scheme {
	case "tcp":
		s.handler = handlerTCP
	case "udp":
		s.handler = handlerUDP
	default:
		s.handler = handlerRelay
		if s.transport, err = parseRelayScheme(u.Scheme); err != nil {
			return serviceSpec{}, fmt.Errorf("%w, tcp and udp)", err)
		}
	}
	if s.user != nil && s.handler != handlerRelay {
		return serviceSpec{}, fmt.Errorf("%s takes no user:password", s.handler)
	}
	if s.target, err = parseTarget(u.Path); err != nil {
		return serviceSpec{}, err
	}

	values := parameters(u.Query())
	if s.handler == handlerRelay {
		s.noDelay = values.takeBool("nodelay", &err)
		s.nagle = values.takeBool("nagle", &err)
		if s.transport.isWebSocket() {
			s.path = values.takePath(&err)
		}
	}
	if s.handler == handlerUDP {
		s.keepalive = values.takeBool("keepalive", &err)
		s.ttl = values.takeDuration("ttl", defaultUDPTTL, &err)
	}
	if err == nil {
		err = values.rest()
	}
	return s, err
}

func parseHop(text string) (hopSpec, error) {
	u, err := parseNode(text)
	if err != nil {
		return hopSpec{}, err
	}
	h := hopSpec{address: u.Host, user: credentialsOf(u), path: defaultPath}
	if h.transport, err = parseRelayScheme(u.Scheme); err != nil {
		return hopSpec{}, fmt.Errorf("%w)", err)
	}
	if strings.Trim(u.Path, "/") != "" {
		return hopSpec{}, fmt.Errorf(
			"a hop takes no target (%q); the WebSocket path is ?path=/ws", u.Path)
	}
	if u.Port() == "0" {
		return hopSpec{}, errors.New("port 0 cannot be dialled")
	}

	values := parameters(u.Query())
	h.noDelay = values.takeBool("nodelay", &err)
	h.nagle = values.takeBool("nagle", &err)
	if h.transport.isWebSocket() {
		h.path = values.takePath(&err)
	}
	if h.transport.isTLS() {
		h.secure = values.takeBool("secure", &err)
	}
	if err == nil {
		err = values.rest()
	}
	return h, err
}

// parseNode reads what -L and -F share.
func parseNode(text string) (*url.URL, error) {
	scheme, _, found := strings.Cut(text, "://")
	if !found || scheme == "" {
		return nil, errors.New("no scheme: write relay+ws://, relay+wss://, tcp:// or udp:// in front")
	}
	u, err := url.Parse(text)
	if err != nil {
		// The text itself is in the message already.
		var parsing *url.Error
		if errors.As(err, &parsing) {
			err = parsing.Err
		}
		return nil, err
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("unexpected #%s", u.Fragment)
	}
	if err := checkPort(u.Port()); err != nil {
		return nil, err
	}
	return u, nil
}

const knownRelays = "relay+ws, relay+wss, relay+tls, relay+mws, relay+mwss, relay+tcp"

// parseRelayScheme leaves its error's parenthesis open, for the caller's own schemes.
func parseRelayScheme(scheme string) (transport, error) {
	switch scheme {
	case "relay", "relay+tcp":
		return transportTCP, nil
	case "relay+ws":
		return transportWS, nil
	case "relay+wss":
		return transportWSS, nil
	case "relay+tls":
		return transportTLS, nil
	case "relay+mws":
		return transportMWS, nil
	case "relay+mwss":
		return transportMWSS, nil
	}
	kind, carrier, _ := strings.Cut(scheme, "+")
	if kind == "relay" {
		return "", fmt.Errorf("unknown transport %q (known are "+knownRelays, carrier)
	}
	return "", fmt.Errorf("unknown handler %q (known are "+knownRelays, scheme)
}

// parseTarget reads the path of an -L: one host:port, or nothing.
func parseTarget(path string) (string, error) {
	target := strings.TrimPrefix(path, "/")
	if target == "" {
		return "", nil
	}
	if strings.Contains(target, ",") {
		return "", fmt.Errorf("target %q: only one target is supported", target)
	}
	_, port, err := net.SplitHostPort(target)
	if err != nil {
		return "", fmt.Errorf("target %q: not host:port", target)
	}
	if err := checkPort(port); err != nil {
		return "", fmt.Errorf("target %q: %w", target, err)
	}
	return target, nil
}

func checkPort(port string) error {
	if port == "" {
		return errors.New("no port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q: not a number from 0 to 65535", port)
	}
	return nil
}

func credentialsOf(u *url.URL) *credentials {
	if u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	return &credentials{name: u.User.Username(), password: password}
}

// parameters are the ?key=value that nobody has taken yet. The take functions
// keep the first error.
type parameters url.Values

func (p parameters) take(key string) (value string, found bool) {
	values, found := p[key]
	delete(p, key)
	if !found {
		return "", false
	}
	return values[len(values)-1], true
}

func (p parameters) takeBool(key string, err *error) bool {
	text, found := p.take(key)
	if !found {
		return false
	}
	value, parsing := strconv.ParseBool(text)
	if parsing != nil && *err == nil {
		*err = fmt.Errorf("%s=%q: not true or false", key, text)
	}
	return value
}

func (p parameters) takeDuration(key string, otherwise time.Duration, err *error) time.Duration {
	text, found := p.take(key)
	if !found {
		return otherwise
	}
	value, parsing := time.ParseDuration(text)
	if (parsing != nil || value <= 0) && *err == nil {
		*err = fmt.Errorf("%s=%q: not a positive duration (like 5s)", key, text)
	}
	return value
}

func (p parameters) takePath(err *error) string {
	path, found := p.take("path")
	if !found {
		return defaultPath
	}
	if !strings.HasPrefix(path, "/") && *err == nil {
		*err = fmt.Errorf("path=%q: does not start with /", path)
	}
	return path
}

func (p parameters) rest() error {
	for key := range p {
		return fmt.Errorf("unknown parameter %q here", key)
	}
	return nil
}
