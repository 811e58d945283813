package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asRelay, set in the environment, makes the test binary the relay itself, so
// that signals and exit codes can be tested on a real process.
const asRelay = "RELAY_TEST_AS_RELAY"

func TestMain(m *testing.M) {
	if os.Getenv(asRelay) != "" {
		main()
	}
	os.Exit(m.Run())
}

func relayProcess(args ...string) *exec.Cmd {
	process := exec.Command(os.Args[0], args...)
	process.Env = append(os.Environ(), asRelay+"=1")
	return process
}

// runRelay runs a relay that is expected to end unasked.
func runRelay(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	process := relayProcess(args...)
	process.Stdout, process.Stderr = &out, &err
	timer := time.AfterFunc(patience, func() { process.Process.Kill() })
	defer timer.Stop()
	process.Run()
	return process.ProcessState.ExitCode(), out.String(), err.String()
}

func TestProcessSaysWhenItListensAndEndsOnSIGTERM(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			process := relayProcess("-L", "udp://127.0.0.1:0", "-L=tcp://:0", "-F", "relay+ws://127.0.0.1:1")
			stderr, err := process.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			defer process.Process.Kill()
			lines := bufio.NewScanner(stderr)
			var tcpPort string
			for _, want := range []string{
				`^listening on 127\.0\.0\.1:\d+/udp$`,
				`^listening on (?:\[::\]|0\.0\.0\.0):(\d+)/tcp$`,
			} {
				if !lines.Scan() {
					t.Fatal("no line")
				}
				var line map[string]string
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatalf("%s: %v", lines.Text(), err)
				}
				match := regexp.MustCompile(want).FindStringSubmatch(line["msg"])
				if match == nil || line["level"] != "info" || line["time"] == "" {
					t.Fatalf("got %s, want %s", lines.Text(), want)
				}
				tcpPort = match[len(match)-1]
			}
			if conn, err := net.Dial("tcp", "127.0.0.1:"+tcpPort); err != nil {
				t.Error(err)
			} else {
				conn.Close()
			}
			process.Process.Signal(signal)
			for lines.Scan() { // to the end
			}
			if err := process.Wait(); err != nil {
				t.Errorf("exit status: %v, want 0", err)
			}
		})
	}
}

func TestPortInUseExitsWith1(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	code, _, stderr := runRelay(t, "-L", "tcp://127.0.0.1:0/127.0.0.1:1",
		"-L", "relay+wss://"+taken.Addr().String()+"/127.0.0.1:80")
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"level":"error"`) ||
		!strings.Contains(lines[0], "address already in use") ||
		!strings.Contains(lines[1], `"level":"fatal"`) {
		t.Errorf("stderr:\n%s", stderr)
	}
}

func TestBadArgumentsExitWith2(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-X"}, {"-L"}, {"-L", "tcp://:443", "extra"}, {"-L", "rely+ws://:443"},
		{"-L", "tcp://:0/a:1", "-F", "socks5://h:1"},
	} {
		code, stdout, stderr := runRelay(t, args...)
		if code != exitBadUsage || stdout != "" || stderr == "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	code, stdout, stderr := runRelay(t, "-V")
	form := regexp.MustCompile(`^relay 0\.\d+ \(go1\.\S+ linux/\w+\)\n$`)
	if code != exitOK || !form.MatchString(stdout) || stderr != "" {
		t.Errorf("-V: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, _, stderr := runRelay(t, "-h"); code != exitOK || !strings.Contains(stderr, "-L") {
		t.Errorf("-h: exit code %d, stderr %q", code, stderr)
	}
}
