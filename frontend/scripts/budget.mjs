// Fails when the built page has grown beyond its budget: what a first visit must load, gzipped.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMITS = { initialJs: 200_000, css: 20_000, lazyChunk: 80_000 };

let page;
try {
  page = readFileSync("dist/index.html", "utf8");
} catch {
  console.log("budget: nothing is built yet, so there is nothing to weigh");
  process.exit(0);
}
const sizes = Object.fromEntries(
  readdirSync("dist/assets").map((name) => [name, gzipSync(readFileSync(join("dist/assets", name))).length]),
);
const initial = [...page.matchAll(/(?:src|href)="[^"]*assets\/([^"]+\.js)"/g)].map((match) => match[1]);
const total = (names) => names.reduce((sum, name) => sum + sizes[name], 0);
const rows = [
  ["initial JavaScript", total(initial), LIMITS.initialJs],
  ["styles", total(Object.keys(sizes).filter((name) => name.endsWith(".css"))), LIMITS.css],
  ...Object.keys(sizes)
    .filter((name) => name.endsWith(".js") && !initial.includes(name))
    .map((name) => [`loaded later: ${name}`, sizes[name], LIMITS.lazyChunk]),
];
for (const [what, bytes, limit] of rows) {
  console.log(
    `${what}: ${(bytes / 1000).toFixed(1)} of ${limit / 1000} kB${bytes > limit ? "  TOO MUCH" : ""}`,
  );
  if (bytes > limit) process.exitCode = 1;
}
