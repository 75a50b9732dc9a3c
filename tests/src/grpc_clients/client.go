// Go gRPC over xDS. `serve ADDRESS` answers calls with `Go`. Otherwise reads lines "TARGET COUNT", and writes how often each answer came as
// lines "COUNT ANSWER" and an empty one.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
)

const (
	deadline = 12 * time.Second
	atOnce   = 16
)

// bytesCodec takes messages as the bytes that they are.
type bytesCodec struct{}

func (bytesCodec) Name() string                        { return "bytes" }
func (bytesCodec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = slices.Clone(data)
	return nil
}

// answer makes one call.
func answer(channel *grpc.ClientConn) string {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var request, response []byte
	err := channel.Invoke(ctx, "/test.Backend/Name", &request, &response, grpc.ForceCodec(bytesCodec{}))
	if err == nil {
		return string(response)
	}
	failure := status.Convert(err)
	return codeName(failure) + " " + strings.ReplaceAll(failure.Message(), "\n", " ")
}

// codeName writes a code as the other clients do: DEADLINE_EXCEEDED for DeadlineExceeded.
func codeName(failure *status.Status) string {
	var name strings.Builder
	for index, letter := range failure.Code().String() {
		if index > 0 && letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}

// callAll makes count calls, and counts their answers.
func callAll(channel *grpc.ClientConn, count int) map[string]int {
	answers := map[string]int{}
	var lock sync.Mutex
	for left := count; left > 0; left -= atOnce {
		var calls sync.WaitGroup
		for range min(left, atOnce) {
			calls.Go(func() {
				text := answer(channel)
				lock.Lock()
				defer lock.Unlock()
				answers[text]++
			})
		}
		calls.Wait()
	}
	return answers
}

// serve answers calls at an address that the control plane gives a listener.
func serve(address string) error {
	name := func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		response := []byte("Go")
		return stream.SendMsg(&response)
	}
	server, err := xds.NewGRPCServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(name))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return server.Serve(listener)
}

func main() {
	if len(os.Args) == 3 {
		log.Fatal(serve(os.Args[2]))
	}
	channels := map[string]*grpc.ClientConn{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		target, times, _ := strings.Cut(lines.Text(), " ")
		count, err := strconv.Atoi(times)
		if err != nil {
			log.Fatal(err)
		}
		channel := channels[target]
		if channel == nil {
			if channel, err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
				log.Fatal(err)
			}
			channels[target] = channel
		}
		answers := callAll(channel, count)
		for _, text := range slices.Sorted(maps.Keys(answers)) {
			fmt.Println(answers[text], text)
		}
		fmt.Println()
	}
}
