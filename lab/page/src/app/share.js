// The button that copies a link to this moment.
import {html, useSignal} from "./html.js";
import {world} from "./run.js";
import {moment} from "./moment.js";
import {encode} from "./link.js";
import {say} from "./announce.js";

export function Share() {
  const done = useSignal("");
  const copy = async () => {
    const link = location.href.split("#")[0] + "#" + encode(world.value, moment());
    history.replaceState(null, "", link);
    // Without a permission, or without TLS, the address bar has to do.
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
    done.value = copied ? "Copied" : "See address";
    say(copied ? "The link is copied." : "The link is in the address bar.");
    setTimeout(() => { done.value = ""; }, 2000);
  };
  return html`<button type="button" class="share" onClick=${copy}>${done.value || "Share"}</button>`;
}
