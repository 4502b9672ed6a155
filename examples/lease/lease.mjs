// Reads a lease page. It says for each line of its input whether leadership is proven.
import { openSync, readSync } from "node:fs";
import { createInterface } from "node:readline";

const page = openSync(process.env.ELECT_LEASE);
const uptime = openSync("/proc/uptime"); // CLOCK_BOOTTIME, which Node does not read, rounded down to 10 ms
const bytes = Buffer.alloc(64);
const text = Buffer.alloc(64);

function read() {
  if (readSync(page, bytes, 0, 64, 0) !== 64 || bytes.toString("latin1", 0, 8) !== "electpg1") throw new Error("lease: ELECT_LEASE names no lease page");
  return bytes.readBigUInt64LE(8);
}

function proven() {
  for (let tries = 0; tries < 1000; tries++) {
    const before = read();
    const until = bytes.readBigInt64LE(24);
    if (before % 2n || read() !== before) continue;
    const now = text.toString("latin1", 0, readSync(uptime, text, 0, 64, 0)).split(" ")[0].replace(".", "");
    const boot = (BigInt(now) + 1n) * 10_000_000n;
    return boot >= process.hrtime.bigint() && boot < until; // less than CLOCK_MONOTONIC: it is a container's own uptime
  }
  return false; // its writer died while it wrote
}

for await (const _ of createInterface({ input: process.stdin })) {
  read();
  console.log(String(bytes.readBigUInt64LE(16)), proven() ? "proven" : "over");
}
