// Generates src/wire/schema.ts from openapi.json; with --check it only compares and fails on a difference.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const target = "src/wire/schema.ts";

function generate(output) {
  execFileSync(
    process.execPath,
    [
      "node_modules/openapi-typescript/bin/cli.js",
      "openapi.json",
      "--root-types",
      "--root-types-no-schema-prefix",
      "--output",
      output,
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
}

if (process.argv.includes("--check")) {
  const folder = mkdtempSync(join(tmpdir(), "agentx-wire-"));
  try {
    const fresh = join(folder, "schema.ts");
    generate(fresh);
    if (readFileSync(fresh, "utf8") !== readFileSync(target, "utf8")) {
      console.error(`${target} does not match openapi.json: run "npm run wire"`);
      process.exitCode = 1;
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
} else {
  generate(target);
}
