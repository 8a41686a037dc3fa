// One process for all browser tests, since the sign-in link works once and its session is shared.
import { after, before } from "node:test";

import { browserStart, browserStop } from "./support.mjs";

before(browserStart);
after(browserStop);

await import("./entrance.mjs");
await import("./turns.mjs");
await import("./failures.mjs");
await import("./reading.mjs");
await import("./screens.mjs");
