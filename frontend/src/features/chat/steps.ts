/**
 * What happened on the way to an answer: calls of tools, and what a person said meanwhile. From events while it happens and
 * from stored messages afterwards.
 */
import type { MessageBody } from "./types";

export interface Step {
  id: string;
  name: string;
  label: string;
  /** JSON as the model wrote it, which may be none. */
  arguments: string;
  /** What the model said beside the calls of this round; on the first of them alone. */
  said: string;
  /** Unknown: its end may be among the events that were lost. Aside: no call, a person's message; `said` is its text. */
  state: "running" | "ok" | "failed" | "unknown" | "aside";
  /** The first words of the result. */
  summary: string;
  seconds: number | null;
}

interface Called {
  id: string;
  name: string;
  label: string;
  arguments: string;
}

export function startStep(call: Called, said: string): Step {
  const { id, name, label } = call;
  return { id, name, label, arguments: call.arguments, said, state: "running", summary: "", seconds: null };
}

/** A message that was sent during the turn, where the turn took it in. */
export function asideStep(message: MessageBody): Step {
  const nothing = { name: "", label: "", arguments: "", summary: "", seconds: null };
  return { ...nothing, id: `aside-${message.seq}`, said: message.content, state: "aside" };
}

interface Returned {
  id: string;
  ok: boolean;
  summary: string;
  duration_ms: number;
}

/** A step as it is known after events were lost. */
export function forgetEnd(step: Step): Step {
  return step.state === "running" ? { ...step, state: "unknown" } : step;
}

/** `steps` with the newest one of that id ended that has no end. Ids may come again in a later round. */
export function endStep(steps: Step[], result: Returned): Step[] {
  const at = steps.findLastIndex(
    (step) => step.id === result.id && (step.state === "running" || step.state === "unknown"),
  );
  if (at < 0) return steps;
  const ended: Step = {
    ...steps[at]!,
    state: result.ok ? "ok" : "failed",
    summary: result.summary,
    seconds: result.duration_ms / 1000,
  };
  return steps.with(at, ended);
}

export function isAside(message: MessageBody): boolean {
  return message.role === "user" && message.metadata.steered === true;
}

/** Whether a stored message belongs to the way to an answer and has no bubble of its own. */
export function isStep(message: MessageBody): boolean {
  if (message.role === "tool" || isAside(message)) return true;
  return message.role === "assistant" && message.tool_calls.length > 0;
}

/** `steps` with those of one more stored message. */
export function addStored(steps: Step[], message: MessageBody): Step[] {
  if (isAside(message)) return [...steps, asideStep(message)];
  if (message.role === "tool") {
    const { ok, summary, duration_ms } = message.metadata;
    return endStep(steps, {
      id: message.tool_call_id,
      ok: ok !== false,
      summary: typeof summary === "string" ? summary : "",
      duration_ms: typeof duration_ms === "number" ? duration_ms : 0,
    });
  }
  const calls = message.tool_calls.map((call, index) => startStep(call, index === 0 ? message.content : ""));
  return [...steps, ...calls];
}

const MOST_CHARACTERS = 80;

/** What a call was about, in a few words: the first text or number among its arguments. */
export function aboutOf(step: Step): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(step.arguments);
  } catch {
    return "";
  }
  if (typeof parsed !== "object" || parsed === null) return "";
  const value = Object.values(parsed).find((item) => typeof item === "string" || typeof item === "number");
  const text = value === undefined ? "" : String(value).replaceAll(/\s+/g, " ").trim();
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text;
}
