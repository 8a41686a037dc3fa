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

/** Model, output tokens, duration and cost of an answer, each only when it is known. */
export function answerFacts(metadata: Facts): string[] {
  const facts: string[] = [];
  if (typeof metadata.model === "string" && metadata.model) {
    const asked = metadata.requested_model;
    facts.push(typeof asked === "string" ? `${metadata.model} instead of ${asked}` : metadata.model);
  }
  const usage = inside(metadata.usage);
  const tokens = usage.output_tokens;
  if (typeof tokens === "number") {
    facts.push(`${tokens.toLocaleString("en")} ${tokens === 1 ? "token" : "tokens"}`);
  }
  const ms = inside(metadata.timings).total_ms;
  if (typeof ms === "number" && ms >= 50) facts.push(formatDuration(ms));
  const { cost, cost_source: source } = usage;
  if (typeof cost === "number") facts.push(`${source === "estimate" ? "≈ " : ""}${formatDollars(cost)}`);
  return facts;
}

/** Dollars with two significant digits below a dollar, so that the cost of one answer is not shown as nothing. */
export function formatDollars(cost: number): string {
  if (cost >= 1 || cost === 0) return `$${cost.toFixed(2)}`;
  return cost < 0.000_01 ? "< $0.00001" : `$${cost.toFixed(Math.min(6, 1 - Math.floor(Math.log10(cost))))}`;
}
