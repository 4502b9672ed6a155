// The page: the machines, the line that says how they are, and the app, which shows what they answer.
import {start} from "./app/app.js";
import {startLive} from "./app/live.js";
import {open} from "./client.js";

// The server says in index.html what it shows.
const live = document.querySelector("meta[name=elect]")?.content === "live";

// For the console, and for tests.
globalThis.elect = live ? startLive() : start(open);

// The page opens without its server the next time. Where that cannot be, it is as if nobody had asked.
if (!live) navigator.serviceWorker?.register("offline.js", {updateViaCache: "none"}).catch(() => {});
