// The button that copies a link: to this moment, or to what link says.
import {html, useSignal} from "./html.js";
import {world} from "./run.js";
import {moment} from "./moment.js";
import {encode} from "./link.js";
import {say} from "./announce.js";

export function Share({name = "Share", link = () => encode(world.value, moment())}) {
  const done = useSignal("");
  const copy = async () => {
    const address = location.href.split("#")[0] + "#" + link();
    history.replaceState(null, "", address);
    // Without a permission, or without TLS, the address bar has to do.
    const copied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
    done.value = copied ? "Copied" : "See address";
    say(copied ? "The link is copied." : "The link is in the address bar.");
    setTimeout(() => { done.value = ""; }, 2000);
  };
  return html`<button type="button" class="share" onClick=${copy}>${done.value || name}</button>`;
}
