package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Maximum difference between the clocks, and the age after which a replayed message is rejected.
	tolerance    = 5 * time.Minute
	maxBodyBytes = 8 << 20
	maxIDs       = 10_000
)

type receiver struct {
	key   []byte
	mutex sync.Mutex
	seen  map[string]bool
	// A ring buffer of the ids in seen. When it is full, next is the index of the oldest.
	order [maxIDs]string
	next  int
}

func (r *receiver) isSigned(header http.Header, body []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for signature := range strings.SplitSeq(header.Get("webhook-signature"), " ") {
		if hmac.Equal([]byte(signature), expected) {
			return true
		}
	}
	return false
}

func (r *receiver) isNew(id string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.seen[id] {
		return false
	}
	delete(r.seen, r.order[r.next])
	r.seen[id], r.order[r.next] = true, id
	r.next = (r.next + 1) % maxIDs
	return true
}

func (r *receiver) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBodyBytes))
	if err != nil || !r.isSigned(request.Header, body) {
		response.WriteHeader(http.StatusUnauthorized)
		return
	}
	response.WriteHeader(http.StatusNoContent)
	var message struct{ Type string }
	if r.isNew(request.Header.Get("webhook-id")) && json.Unmarshal(body, &message) == nil {
		fmt.Println(message.Type, request.Header.Get("webhook-sequence"))
	}
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("Set WEBHOOK_SECRET to the secret of the webhook.")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	// Behind a proxy that terminates TLS.
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening at http://%s\n", listener.Addr())
	server := http.Server{Handler: &receiver{key: key, seen: map[string]bool{}}, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
