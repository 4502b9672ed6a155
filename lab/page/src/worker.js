// The machines, compiled to WebAssembly, in a thread of their own. A message {id, method, params} is answered by
// {id, answer}, perhaps after some {id, done, all}; params and answer are strings of JSON, as electCall takes and returns
// them. Everything else that is told is for the state of client.js, and an {error} is the end.

const missing = "The machines are missing: the server has no machines.wasm beside this page; want the whole folder that electlab page --write makes.";

// fetched opens a file of the folder, or returns null where there is none.
async function fetched(name) {
  // What is in the browser's cache may be of another version: the server is asked.
  const response = await fetch(name, {cache: "no-cache"}).catch(cause => {
    throw new Error(`The machines cannot be loaded: ${cause.message}; want the server of this page to answer.`);
  });
  return response.ok ? response : null;
}

// program returns the bytes of the program as a stream, and tells how many of the file have come.
async function program() {
  // A plain file server compresses nothing, so the compressed file is asked for, and decompressed here.
  let response = typeof DecompressionStream === "function" ? await fetched("machines.wasm.gz") : null;
  response ??= await fetched("machines.wasm");
  if (!response) throw new Error(missing);

  // Where the server says how it has compressed a file, its length is not that of what is read here.
  const total = response.headers.has("content-encoding") ? 0 : Number(response.headers.get("content-length"));
  const reader = response.body.getReader();
  let next = await reader.read(), loaded = 0;
  const begin = next.value?.subarray(0, 4).join() ?? "";
  const bytes = new ReadableStream({
    async pull(out) {
      if (next.done) return out.close();
      loaded += next.value.length;
      postMessage({loaded, total});
      out.enqueue(next.value);
      next = await reader.read();
    },
  });
  if (begin === "0,97,115,109") return bytes; // \0asm; some servers decompress what ends in .gz
  if (begin.startsWith("31,139,")) return bytes.pipeThrough(new DecompressionStream("gzip"));
  throw new Error(missing); // a server that answers everything with a page
}

async function start() {
  importScripts("wasm_exec.js"); // Go's own: it defines Go
  const go = new Go();
  let code = 0;
  go.exit = c => { code = c; };
  const stream = await program();
  // Made here, the response has the type that streaming asks for, whatever the server knows of it.
  const response = new Response(stream, {headers: {"content-type": "application/wasm"}});
  const {instance} = await WebAssembly.instantiateStreaming(response, go.importObject).catch(cause => {
    throw new Error(`The machines cannot be started: ${cause.message}; want the page loaded anew.`);
  });
  postMessage({phase: "starting"});
  go.run(instance).then(() => {
    postMessage({error: `The machines ended with exit code ${code}, perhaps because memory ran out; want the page loaded anew.`});
  });
  postMessage({phase: "ready"}); // main has run until it waits
}

const started = start().then(() => true, cause => {
  postMessage({error: cause.message});
  return false;
});

onmessage = async ({data: {id, method, params}}) => {
  if (!await started) return;
  globalThis.electProgress = (done, all) => postMessage({id, done, all});
  postMessage({id, answer: electCall(method, params)});
};
