// Reads what heads wrote as the engine's HTTP server would, with net/http, and says where it understands a request that
// dockerproxy accepted differently: method, target, path, query, body, or where the next request begins.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

var in = bufio.NewReaderSize(os.Stdin, 1<<20)

func next() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(in, b)
	return b, err
}

// What differs, "" for nothing.
func compare(raw, method, target, path, query, body, left []byte) string {
	reader := bufio.NewReaderSize(bytes.NewReader(raw), 16384)
	r, err := http.ReadRequest(reader)
	if err != nil {
		return "refused: " + err.Error()
	}
	got, err := io.ReadAll(r.Body)
	if err != nil {
		return "body refused: " + err.Error()
	}
	rest, _ := io.ReadAll(reader)
	switch {
	case r.Method != string(method):
		return "method " + r.Method
	case r.RequestURI != string(target):
		return "target " + r.RequestURI
	case !bytes.Equal(got, body):
		return fmt.Sprintf("body %q", got)
	case !bytes.Equal(rest, left):
		return fmt.Sprintf("next %q", rest)
	case r.URL.EscapedPath() != string(path):
		return "path " + r.URL.EscapedPath()
	case r.URL.IsAbs() || r.URL.Host != "":
		return "host " + r.URL.String()
	}
	want := url.Values{}
	if len(query) > 0 {
		words := strings.Split(strings.TrimSuffix(string(query), "\x00"), "\x00")
		for i := 0; i+1 < len(words); i += 2 {
			want[words[i]] = []string{words[i+1]}
		}
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || fmt.Sprint(values) != fmt.Sprint(want) {
		return fmt.Sprintf("query %v, not %v", values, want)
	}
	return ""
}

func main() {
	seen, differ := 0, 0
	for {
		var part [7][]byte
		var err error
		for i := range part {
			if part[i], err = next(); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
		seen++
		if what := compare(part[0], part[1], part[2], part[3], part[4], part[5], part[6]); what != "" {
			differ++
			if differ <= 20 {
				fmt.Printf("DIFFERS %s: %q\n", what, part[0])
			}
		}
	}
	fmt.Printf("heads: %d accepted requests, %d are understood differently by net/http\n", seen, differ)
	if seen == 0 || differ > 0 {
		os.Exit(1)
	}
}
