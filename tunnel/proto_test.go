package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// unhex reads bytes as the protocol's descriptions print them.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What GOST's clients send that know no target.
const (
	v3TCP = "01 01 00 07 02 00 04 03 00 00 00"
	v3UDP = "01 81 00 0c 04 00 02 00 01 02 00 04 03 00 00 00"
	v2TCP = "01 00 00 00"
	v2UDP = "01 80 00 00"
)

func TestRequestIsEncodedAsV3ClientsDo(t *testing.T) {
	user := &credentials{"ann", "pw"}
	for _, c := range []struct {
		name, network, target string
		user                  *credentials
		want                  string
	}{
		{"tcp, no target", "tcp", "", nil, v3TCP},
		{"udp, no target", "udp", "", nil, v3UDP},
		{"IPv4", "tcp", "127.0.0.1:80", nil, "01 01 00 0a 02 00 07 01 7f 00 00 01 00 50"},
		{"IPv6", "tcp", "[::1]:443", nil,
			"01 01 00 16 02 00 13 04 00000000000000000000000000000001 01 bb"},
		{"name", "tcp", "ab:443", nil, "01 01 00 09 02 00 06 03 02 61 62 01 bb"},
		{"user", "tcp", "", user, "01 01 00 11 01 00 07 03 616e6e 02 7077 02 00 04 03 00 00 00"},
		{"udp with user", "udp", "1.2.3.4:53", user,
			"01 81 00 19 04 00 02 00 01 01 00 07 03 616e6e 02 7077 02 00 07 01 01 02 03 04 00 35"},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := newRequest(c.network, c.target, c.user)
			if err != nil {
				t.Fatal(err)
			}
			got, err := request.encode()
			if err != nil {
				t.Fatal(err)
			}
			if want := unhex(t, c.want); !bytes.Equal(got, want) {
				t.Errorf("got  % x\nwant % x", got, want)
			}
		})
	}
}

func TestRequestIsDecoded(t *testing.T) {
	udp, unix := uint16(networkUDP), uint16(0x10)
	for _, c := range []struct {
		name, bytes string
		want        request
		isUDP       bool
	}{
		{"v3 tcp", v3TCP, request{command: commandConnect, target: &endpoint{}}, false},
		{"v3 udp", v3UDP,
			request{command: commandConnect, udpFlag: true, network: &udp, target: &endpoint{}}, true},
		{"v2 tcp", v2TCP, request{}, false},
		{"v2 udp", v2UDP, request{udpFlag: true}, true},
		{"udp by feature alone", "01 01 00 05 04 00 02 00 01",
			request{command: commandConnect, network: &udp}, true},
		{"unix", "01 01 00 05 04 00 02 00 10", request{command: commandConnect, network: &unix}, false},
		{"bind", "01 02 00 00", request{command: commandBind}, false},
		{"IPv4", "01 01 00 0a 02 00 07 01 7f 00 00 01 00 50",
			request{command: commandConnect, target: &endpoint{"127.0.0.1", 80}}, false},
		{"IPv6", "01 01 00 16 02 00 13 04 00000000000000000000000000000001 01 bb",
			request{command: commandConnect, target: &endpoint{"::1", 443}}, false},
		{"user", "01 01 00 0a 01 00 07 03 616e6e 02 7077",
			request{command: commandConnect, user: &credentials{"ann", "pw"}}, false},
		{"empty user", "01 01 00 05 01 00 02 00 00",
			request{command: commandConnect, user: &credentials{}}, false},
		{"tunnel id", "01 01 00 17 03 00 14" + strings.Repeat("00", 20),
			request{command: commandConnect}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const following = "data"
			in := bytes.NewReader(append(unhex(t, c.bytes), following...))
			got, err := readRequest(in)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got %+v, want %+v", *got, c.want)
			}
			if got.isUDP() != c.isUDP {
				t.Errorf("isUDP = %v", got.isUDP())
			}
			if rest, _ := io.ReadAll(in); string(rest) != following {
				t.Errorf("left %q unread, want %q", rest, following)
			}
		})
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		want        error
	}{
		{"nothing", "", io.EOF},
		{"half a header", "01 01", io.ErrUnexpectedEOF},
		{"version 0", "00 01 00 00", errVersion},
		{"version 2", "02 01 00 00", errVersion},
		{"features cut short", "01 01 00 07 02 00 04", io.ErrUnexpectedEOF},
		{"features missing", "01 01 00 07", io.ErrUnexpectedEOF},
		{"feature's header cut short", "01 01 00 02 02 00", errTruncated},
		{"feature longer than the rest", "01 01 00 04 02 00 04 03", errTruncated},
		{"unknown feature", "01 01 00 03 05 00 00", errFeature},
		{"unknown feature after a good one", "01 01 00 08 04 00 02 00 01 7f 00 00", errFeature},
		{"unknown address type", "01 01 00 07 02 00 04 02 00 00 00", errAddress},
		{"empty address", "01 01 00 03 02 00 00", errTruncated},
		{"name longer than the feature", "01 01 00 07 02 00 04 03 05 00 00", errTruncated},
		{"no port", "01 01 00 08 02 00 05 01 7f 00 00 01", errTruncated},
		{"short IPv6", "01 01 00 0a 02 00 07 04 7f 00 00 01 00 50", errTruncated},
		{"user without password", "01 01 00 05 01 00 02 01 61", errTruncated},
		{"password longer than the feature", "01 01 00 06 01 00 03 01 61 05", errTruncated},
		{"short network", "01 01 00 04 04 00 01 00", errTruncated},
		{"short tunnel id", "01 01 00 04 03 00 01 00", errTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readRequest(bytes.NewReader(unhex(t, c.bytes))); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestResponses(t *testing.T) {
	if err := readResponse(bytes.NewReader(unhex(t, "01 00 00 00"))); err != nil {
		t.Error(err)
	}
	if err := readResponse(bytes.NewReader(unhex(t, "01 00 00 03 02 00 00"))); err != nil {
		t.Errorf("features in a response are not read over: %v", err)
	}
	for s := statusBadRequest; s <= statusInternalError; s++ {
		err := readResponse(bytes.NewReader(encodeResponse(s)))
		if !errors.Is(err, s) {
			t.Errorf("status %d: got %v", byte(s), err)
		}
	}
	if err := readResponse(bytes.NewReader(unhex(t, "05 00 00 00"))); !errors.Is(err, errVersion) {
		t.Errorf("version 5: got %v", err)
	}
}

// FuzzReadRequest: no bytes crash the parser, it takes no more than the header
// says, and what it understood it understands again after encoding.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{v3TCP, v3UDP, v2TCP, v2UDP, "01 01 00 03 05 00 00",
		"01 02 00 0a 02 00 07 01 7f 00 00 01 00 50",
		"01 01 00 16 02 00 13 04 00000000000000000000000000000001 01 bb",
		"01 81 00 19 04 00 02 00 01 01 00 07 03 616e6e 02 7077 02 00 07 01 01 02 03 04 00 35",
		"01 01 00 17 03 00 14" + strings.Repeat("00", 20),
		"01 01 00 0c 02 00 09 03 05 303a3a3031 00 50", // the name 0::01, which is the address ::1
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		request, err := readRequest(in)
		if err != nil {
			return
		}
		if taken, said := len(data)-in.Len(), headerLen+int(data[2])<<8+int(data[3]); taken != said {
			t.Fatalf("took %d bytes of a header of %d", taken, said)
		}
		encoded, err := request.encode()
		if err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
		again, err := readRequest(bytes.NewReader(encoded))
		if err != nil {
			t.Fatalf("% x: %v", encoded, err)
		}
		if !reflect.DeepEqual(request, again) {
			t.Fatalf("%+v (target %v) became %+v (target %v)", request, request.target, again, again.target)
		}
	})
}
