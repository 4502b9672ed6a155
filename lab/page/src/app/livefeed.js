// The connection with a cluster that runs: its events, and the verbs by which it is broken. The token of the address is
// kept for this tab, and taken out of the address, where it could be seen.
const key = "elect live token";

export function token() {
  const given = /^#token=(\w+)$/.exec(location.hash)?.[1];
  if (given) {
    sessionStorage.setItem(key, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return given ?? sessionStorage.getItem(key) ?? "";
}

const authorized = bearer => ({authorization: `Bearer ${bearer}`});

// reason is what an answer says is wrong.
const reason = async response => (await response.json().catch(() => null))?.error ?? `the server answers with status ${response.status}`;

// Refused is the server's no, which another try does not change.
export class Refused extends Error {}

// listen hands each message to on(kind, data), until the stream ends. Messages after the one with the number last are
// asked for; it returns the number of the last one. It throws a Refused, or the error of the network.
export async function listen(bearer, last, on) {
  const response = await fetch("live/events", {headers: {...authorized(bearer), ...(last && {"last-event-id": last})}, cache: "no-store"});
  if (!response.ok) throw new Refused(await reason(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const {id, event, data} = Object.fromEntries(part.split("\n").map(l => [l.slice(0, l.indexOf(":")), l.slice(l.indexOf(":") + 2)]));
      on(event, JSON.parse(data), id);
    }
  }
}

// order has a verb done. It returns why the verb is of no use now, "" if it was done, and throws what went wrong.
export async function order(bearer, verb, node) {
  const response = await fetch(`live/${verb}`, {
    method: "POST", headers: {...authorized(bearer), "content-type": "application/json"}, body: JSON.stringify({node}),
  });
  if (!response.ok) throw new Error(await reason(response));
  return (await response.json()).refused;
}
