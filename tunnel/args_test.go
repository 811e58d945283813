package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTheThesisCommandsAreUnderstood(t *testing.T) {
	far, err := parseConfig([]string{"relay+ws://:443/127.0.0.1:80"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	near, err := parseConfig(
		[]string{"udp://:443", "tcp://:443"}, []string{"relay+wss://10.0.3.2:443"})
	if err != nil {
		t.Fatal(err)
	}
	wantFar := config{services: []serviceSpec{{handler: handlerRelay, transport: transportWS,
		address: ":443", target: "127.0.0.1:80", path: "/ws", ttl: defaultUDPTTL}}}
	wantNear := config{
		services: []serviceSpec{
			{handler: handlerUDP, address: ":443", path: "/ws", ttl: defaultUDPTTL},
			{handler: handlerTCP, address: ":443", path: "/ws", ttl: defaultUDPTTL},
		},
		hops: []hopSpec{{transport: transportWSS, address: "10.0.3.2:443", path: "/ws"}},
	}
	if !reflect.DeepEqual(far, wantFar) {
		t.Errorf("far end: got %+v", far)
	}
	if !reflect.DeepEqual(near, wantNear) {
		t.Errorf("near end: got %+v", near)
	}
}

func TestParametersAreUnderstood(t *testing.T) {
	got, err := parseConfig(
		[]string{"relay+wss://ann:p%40ss@[::1]:8443/host:80?nodelay=true&path=/t",
			"udp://:53/h:53?keepalive=true&ttl=60s"},
		[]string{"relay+ws://a:1?path=/x", "relay+wss://ann@b:2?secure=true&nodelay=1", "relay://c:3"})
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		services: []serviceSpec{
			{handler: handlerRelay, transport: transportWSS, address: "[::1]:8443", target: "host:80",
				user: &credentials{"ann", "p@ss"}, path: "/t", noDelay: true, ttl: defaultUDPTTL},
			{handler: handlerUDP, address: ":53", target: "h:53", path: "/ws", keepalive: true,
				ttl: time.Minute},
		},
		hops: []hopSpec{
			{transport: transportWS, address: "a:1", path: "/x"},
			{transport: transportWSS, address: "b:2", path: "/ws",
				user: &credentials{"ann", ""}, secure: true, noDelay: true},
			{transport: transportTCP, address: "c:3", path: "/ws"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, c := range []struct{ listen, forward, want string }{
		{"", "", "no -L given"},
		{":443", "", "no scheme"},
		{"rely+ws://:443", "", `unknown handler "rely+ws"`},
		{"relay+wsss://:443", "", `unknown transport "wsss"`},
		{"http://:8080", "", `unknown handler "http"`},
		{"tcp+ws://:443", "relay://h:1", `unknown handler "tcp+ws"`},
		{"tcp://:443", "", "nowhere to forward to"},
		{"tcp://", "relay://h:1", "no port"},
		{"tcp://:70000", "relay://h:1", `port "70000"`},
		{"tcp://:443-445", "relay://h:1", "port"},
		{"tcp://:443/h", "", "not host:port"},
		{"tcp://:443/h:x", "", `port "x"`},
		{"tcp://:443/a:1,b:2", "", "only one target"},
		{"tcp://u:p@:443/a:1", "", "takes no user"},
		{"tcp://:443/a:1?nodelay=true", "", `unknown parameter "nodelay"`},
		{"relay+ws://:443?nodleay=true", "", `unknown parameter "nodleay"`},
		{"relay+ws://:443?nodelay=perhaps", "", "not true or false"},
		{"relay+ws://:443?path=ws", "", "does not start with /"},
		{"udp://:443/a:1?ttl=soon", "", "not a positive duration"},
		{"udp://:443/a:1?ttl=0s", "", "not a positive duration"},
		{"relay+ws://:443#x", "", "unexpected #x"},
		{"tcp://:443", "tcp://h:1", `unknown handler "tcp"`},
		{"tcp://:443", "relay+ws://h", "no port"},
		{"tcp://:443", "relay+ws://h:0", "port 0"},
		{"tcp://:443", "relay+ws://h:1/x:2", "a hop takes no target"},
		{"tcp://:443", "relay+ws://h:1?secure=true", `unknown parameter "secure"`},
	} {
		t.Run(c.listen+" "+c.forward, func(t *testing.T) {
			var listen, forward []string
			if c.listen != "" {
				listen = []string{c.listen}
			}
			if c.forward != "" {
				forward = []string{c.forward}
			}
			_, err := parseConfig(listen, forward)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if strings.Count(err.Error(), "(") != strings.Count(err.Error(), ")") {
				t.Errorf("unbalanced parentheses: %v", err)
			}
		})
	}
}
