//go:build js && wasm

// Command machines runs the machines, in the simulator, for the laboratory's page, in a worker of the browser. Package
// page compiles it to WebAssembly. It sets globalThis.electCall(method, params), which takes a method and JSON, and
// returns JSON: {"ok":result} or {"error":"what is wrong"}. A long call calls globalThis.electProgress(done, all),
// which the worker sets, now and then. The worker calls from its one thread. A panic is an error of the call, and the
// next call is answered.
package main

import (
	"encoding/json"
	"fmt"
	"syscall/js"

	"github.com/electd/elect/lab/play"
)

func main() {
	player := play.New()
	player.Progress = func(done, all uint64) { js.Global().Call("electProgress", done, all) }
	js.Global().Set("electCall", js.FuncOf(func(_ js.Value, args []js.Value) any {
		if len(args) != 2 || args[0].Type() != js.TypeString || args[1].Type() != js.TypeString {
			return failure("electCall was given something else; want a method and its parameters as JSON, two strings")
		}
		return call(player, args[0].String(), args[1].String())
	}))
	select {} // the program must not end: calls come in from outside
}

// call returns any outcome of a call, even a panic, as JSON.
func call(player *play.Player, method, params string) (answer string) {
	defer func() {
		if cause := recover(); cause != nil {
			answer = failure(fmt.Sprintf("%s: it crashed: %v", method, cause))
		}
	}()
	result, err := player.Call(method, []byte(params))
	if err != nil {
		return failure(err.Error())
	}
	if len(result) == 0 {
		result = []byte("null")
	}
	return `{"ok":` + string(result) + `}`
}

func failure(what string) string {
	text, err := json.Marshal(map[string]string{"error": what})
	if err != nil {
		panic(err) // a string is JSON
	}
	return string(text)
}
