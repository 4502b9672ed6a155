// What keeps the page, so that it opens where the network or its server is away: a service worker. The server's answer
// comes first at all times, so nothing is ever stale; what is kept is for when there is none. FILES has the hash of the
// content of each file, by name, as the server was given them: what has another content is not kept.

const prefix = `elect ${registration.scope} `; // of the names of our caches: other pages of this server have theirs
const version = prefix + Object.entries(FILES).join(" ");

// ours is the name of the file of the page that a request is for, and undefined if it is for something else.
function ours({method, url}) {
  const name = url.startsWith(registration.scope) && url.slice(registration.scope.length).split(/[?#]/)[0] || "index.html";
  return method === "GET" && url.startsWith(registration.scope) && Object.hasOwn(FILES, name) ? name : undefined;
}

const address = name => new URL(name === "index.html" ? "./" : name, registration.scope);

async function hash(bytes) {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(sum.subarray(0, 8), b => b.toString(16).padStart(2, "0")).join("");
}

// take returns a file from the server, and an error if it is not of this version. Some servers decompress what ends in .gz.
async function take(name) {
  const response = await fetch(address(name), {cache: "no-cache"});
  const bytes = await response.arrayBuffer();
  if (!response.ok || ![FILES[name], FILES[name.replace(/\.gz$/, "")]].includes(await hash(bytes))) throw new Error(`${name} is of another version`);
  return new Response(bytes, {headers: {"content-type": response.headers.get("content-type") ?? ""}});
}

async function keep() {
  const names = Object.keys(FILES).filter(name => name !== "machines.wasm"); // the same as machines.wasm.gz
  const before = [];
  for (const name of (await caches.keys()).filter(name => name.startsWith(prefix))) before.push(await caches.open(name));
  const all = await Promise.all(names.map(async name => {
    for (const cache of before) {
      const kept = await cache.match(address(name));
      if (kept && await hash(await kept.clone().arrayBuffer()) === FILES[name]) return [name, kept];
    }
    return [name, await take(name)];
  }));
  const cache = await caches.open(version);
  await Promise.all(all.map(([name, response]) => cache.put(address(name), response)));
}

async function forget() {
  for (const name of await caches.keys()) if (name.startsWith(prefix) && name !== version) await caches.delete(name);
}

oninstall = event => {
  skipWaiting();
  event.waitUntil(keep());
};
onactivate = event => event.waitUntil(forget());
onfetch = event => {
  const name = ours(event.request);
  if (name === undefined) return;
  event.respondWith(fetch(event.request).catch(async cause => {
    const kept = await (await caches.open(version)).match(address(name));
    if (!kept) throw cause;
    return kept;
  }));
};
