// The congestion control of plain TCP is what is studied, and Go 1.24 and
// later listen with Multipath TCP unless told otherwise. Go 1.19 reads the
// next line as a comment, and has no Multipath TCP.
//
//go:debug multipathtcp=0

// Relay carries TCP streams and UDP datagrams through a tunnel, with the
// arguments and the wire protocol of GOST's relay over WebSocket.
//
//	relay -L relay+ws://:443/127.0.0.1:80                        # the far end
//	relay -L udp://:443 -L tcp://:443 -F relay+ws://HOST:443     # the near end
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// version is what -V prints.
const version = "0.2"

// Exit codes, the same as GOST's.
const (
	exitOK       = 0
	exitFailed   = 1 // a listener could not be opened
	exitBadUsage = 2 // the arguments make no sense
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without its process: it serves until ctx is done, writes
// to stdout and stderr only, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var listen, forward stringList
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Var(&listen, "L", "listen: "+
		"`[handler[+listener]://][user:pass@][host]:port[/target][?key=value]`, repeatable")
	flags.Var(&forward, "F", "forward through: "+
		"`relay[+dialer]://[user:pass@]host:port[?key=value]`, repeat for more hops")
	printVersion := flags.Bool("V", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitBadUsage
	}
	if *printVersion {
		fmt.Fprintf(stdout, "relay %s (%s %s/%s)\n",
			version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return exitOK
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "relay: unexpected argument %q (see relay -h)\n", flags.Arg(0))
		return exitBadUsage
	}
	config, err := parseConfig(listen, forward)
	if err != nil {
		fmt.Fprintf(stderr, "relay: %v\n", err)
		return exitBadUsage
	}

	log := newLogger(stderr)
	server, err := start(config, log)
	if err != nil {
		log.error(err.Error(), nil)
		log.fatal("no service was started: one of the listeners could not be opened")
		return exitFailed
	}
	<-ctx.Done()
	server.Close()
	log.info("closed", nil)
	return exitOK
}

// stringList is a flag that may be given several times.
type stringList []string

func (l *stringList) String() string { return fmt.Sprint(*l) }

func (l *stringList) Set(value string) error {
	*l = append(*l, value)
	return nil
}
