// The machines as the page sees them: open() starts a worker with machines of its own, and call() asks them.
import {signal} from "@preact/signals";

// open returns
//   state  a signal of {phase: "loading" | "starting" | "ready" | "failed", loaded, total, error}: bytes of the download,
//          total is 0 if the server does not say; error is a sentence for people, in phase failed
//   call   asks the machines. Calls are answered in their order, and wait while the machines load. A call that takes long
//          tells how far it is, to tell(done, all). The promise is rejected with an Error if the machines refuse, and if
//          they are lost
//   close  ends the worker; calls without an answer are rejected
export function open() {
  const state = signal({phase: "loading", loaded: 0, total: 0, error: ""});
  const waiting = new Map(); // by the number of the call
  let last = 0, worker = null;

  const end = error => {
    if (state.value.phase === "failed") return;
    worker?.terminate();
    state.value = {...state.value, phase: "failed", error};
    for (const {reject} of waiting.values()) reject(new Error(error));
    waiting.clear();
  };
  const answered = ({id, answer, done, all}) => {
    const {resolve, reject, tell} = waiting.get(id);
    if (answer === undefined) return tell?.(done, all);
    waiting.delete(id);
    const {ok, error} = JSON.parse(answer);
    if (error === undefined) resolve(ok); else reject(new Error(error));
  };
  const start = () => {
    if (typeof WebAssembly !== "object") {
      return end("This browser has no WebAssembly, or it is switched off; want one that has it, such as a current Firefox, Chrome or Safari.");
    }
    if (location.protocol === "file:") {
      return end("This page was opened as a file, and browsers start no worker from a file; want it from a web server: electlab page serves it.");
    }
    worker = new Worker(new URL(WORKER, document.baseURI)); // the build puts the name in place of WORKER
    worker.onmessage = ({data}) => {
      if (data.id) answered(data);
      else if (data.error) end(data.error);
      else state.value = {...state.value, ...data};
    };
    worker.onmessageerror = () => end("An answer of the machines could not be read; want the page loaded anew.");
    worker.onerror = event => {
      event.preventDefault(); // it is told here, and no error of the page
      end(`The worker with the machines ended: ${event.message || "its file cannot be loaded"}; want the page loaded anew.`);
    };
  };
  start();

  return {
    state,
    call: (method, params = {}, tell) => new Promise((resolve, reject) => {
      if (state.value.phase === "failed") return reject(new Error(state.value.error));
      waiting.set(++last, {resolve, reject, tell});
      worker.postMessage({id: last, method, params: JSON.stringify(params)});
    }),
    close: () => end("The machines were closed."),
  };
}
