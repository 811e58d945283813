package main

import (
	"io"
	"net"
	"testing"
	"time"
)

// BenchmarkThroughput sends bytes up one stream over loopback, both tunnel ends and
// the target in this process; "direct" is the same stream without a tunnel:
//
//	go test -run '^$' -bench Throughput -cpu 1
func BenchmarkThroughput(b *testing.B) {
	const chunk = 1 << 20
	for _, way := range []struct{ name, carrier string }{
		{"direct", ""}, {"tcp", "relay"}, {"ws", "relay+ws"}, {"wss", "relay+wss"},
	} {
		b.Run(way.name, func(b *testing.B) {
			total := int64(b.N) * chunk
			arrived := make(chan error, 1)
			target := tcpTarget(b, func(conn net.Conn) {
				// Not io.Copy to io.Discard: its 8 KiB reads would be the bottleneck.
				buffer := make([]byte, 128<<10)
				for left := total; left > 0; {
					n, err := conn.Read(buffer)
					if left -= int64(n); err != nil {
						arrived <- err
						return
					}
				}
				arrived <- nil
				io.Copy(io.Discard, conn)
			})
			entry := target
			if way.carrier != "" {
				entry = tunnelTo(b, "tcp://127.0.0.1:0", way.carrier, target)
			}
			conn := dialTCP(b, entry)
			conn.SetDeadline(time.Time{})
			data := make([]byte, 128<<10)
			b.SetBytes(chunk)
			b.ResetTimer()
			for left := total; left > 0; left -= int64(len(data)) {
				if _, err := conn.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			if err := <-arrived; err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
		})
	}
}
