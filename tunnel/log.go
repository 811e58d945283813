package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// logger writes one JSON object a line, with GOST's keys, so that whoever waits
// for GOST to listen can wait for this relay in the same way.
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
	line := fields{"level": level, "msg": msg, "time": time.Now().Format("2006-01-02T15:04:05.000Z07:00")}
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

// Write lets the HTTP server's own complaints (a failed TLS handshake, a
// request that is not HTTP) end up as log lines.
func (l *logger) Write(text []byte) (int, error) {
	end := len(text)
	for end > 0 && text[end-1] == '\n' {
		end--
	}
	l.warn(string(text[:end]), nil)
	return len(text), nil
}
