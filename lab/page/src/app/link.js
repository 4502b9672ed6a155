// The link to a world and a moment of it: JSON in base64url, behind the # of the address.

// encode makes the part behind the #.
export function encode(world, moment) {
  const bytes = new TextEncoder().encode(JSON.stringify({world, ...moment}));
  let text = "";
  for (const b of bytes) text += String.fromCharCode(b);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// decode returns {world, moment}, or null without a link. It throws an Error that says what is wrong with one.
export function decode(hash) {
  const text = hash.replace(/^#/, "");
  if (!text) return null;
  let value;
  try {
    const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    value = JSON.parse(new TextDecoder("utf-8", {fatal: true}).decode(Uint8Array.from(raw, c => c.charCodeAt(0))));
  } catch {
    throw new Error("The link cannot be read; want one that Share has copied, in full.");
  }
  if (!value || typeof value.world !== "object" || !value.world) {
    throw new Error("The link has no world in it; want one that Share has copied, in full.");
  }
  const whole = n => Number.isSafeInteger(n) && n >= 0;
  if ([value.event, value.time].some(n => n !== undefined && !whole(n))) {
    throw new Error("The link has a moment that is no whole number; want one that Share has copied, in full.");
  }
  const moment = whole(value.event) ? {event: value.event} : whole(value.time) ? {time: value.time} : {time: 0};
  return {world: value.world, moment};
}
