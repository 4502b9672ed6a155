// The page: the machines, the line that says how they are, and the app, which shows what they answer.
import {start} from "./app/app.js";
import {open} from "./client.js";

// For the console, and for tests.
globalThis.elect = start(open);
