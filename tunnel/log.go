package main

import (
	"encoding/json"
	"io"
	stdlog "log"
	"strings"
	"sync"
	"time"
)

// logger writes one JSON object a line, with GOST's keys, so that a program
// that waits for GOST to listen waits for this relay in the same way.
type logger struct {
	mu  sync.Mutex
	out io.Writer
}

func newLogger(out io.Writer) *logger { return &logger{out: out} }

// fields are the keys of a line besides level, msg and time.
type fields map[string]string

func (l *logger) info(msg string, more fields)  { l.line("info", msg, more) }
func (l *logger) warn(msg string, more fields)  { l.line("warn", msg, more) }
func (l *logger) error(msg string, more fields) { l.line("error", msg, more) }
func (l *logger) fatal(msg string)              { l.line("fatal", msg, nil) }

func (l *logger) line(level, msg string, more fields) {
	now := time.Now().Format("2006-01-02T15:04:05.000Z07:00")
	line := fields{"level": level, "msg": msg, "time": now}
	for key, value := range more {
		line[key] = value
	}
	text, err := json.Marshal(line) // sorts the keys
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Write(append(text, '\n'))
}

// standard returns a standard logger that writes here: it takes the HTTP
// server's own complaints (a failed TLS handshake, a request that is not HTTP).
func (l *logger) standard() *stdlog.Logger { return stdlog.New(warnings{l}, "", 0) }

// warnings turns each write into a line.
type warnings struct{ log *logger }

func (w warnings) Write(text []byte) (int, error) {
	w.log.warn(strings.TrimSpace(string(text)), nil)
	return len(text), nil
}
