/** What is said about a stored answer: only what the server stored, and nothing that it did not. */

type Facts = Record<string, unknown>;

function inside(value: unknown): Facts {
  return typeof value === "object" && value !== null ? (value as Facts) : {};
}

export function formatDuration(ms: number): string {
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Model, output tokens and duration of an answer, each only when it is known. */
export function answerFacts(metadata: Facts): string[] {
  const facts: string[] = [];
  if (typeof metadata.model === "string" && metadata.model) facts.push(metadata.model);
  const tokens = inside(metadata.usage).output_tokens;
  if (typeof tokens === "number") {
    facts.push(`${tokens.toLocaleString("en")} ${tokens === 1 ? "token" : "tokens"}`);
  }
  const ms = inside(metadata.timings).total_ms;
  if (typeof ms === "number" && ms >= 50) facts.push(formatDuration(ms));
  return facts;
}
