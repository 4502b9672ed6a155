// What leads a visitor through the page: the screens before a world, a story, or a challenge. Links name them.
import {html, signal} from "./html.js";
import {enter, screen} from "./start.js";
import {encode} from "./link.js";
import {Story, story, tell} from "./story.js";
import {Challenge, challenge, face} from "./challenge.js";

const ways = {story: tell, challenge: face};
const coming = signal(false); // what the address names is being opened

// guided follows a link to a story or a challenge, and says whether it is one.
export async function guided(hash) {
  const [what, ...rest] = hash.slice(1).split("/");
  const way = Object.hasOwn(ways, what) && ways[what];
  coming.value = Boolean(way);
  if (what !== "story") story.value = null;
  challenge.value = null;
  enter(hash);
  if (!way) return false;
  try {
    await way(...rest);
  } finally {
    coming.value = false;
  }
  return true;
}

// linkTo is the link to a moment, "" while the address has that of a screen or of a step.
export function linkTo(world, moment) {
  if (coming.value || screen.value || story.value) return "";
  return (challenge.value ? `challenge/${challenge.value.name}/` : "") + encode(world, moment);
}

export const Guide = () => (story.value ? html`<${Story} />` : challenge.value && html`<${Challenge} />`);
