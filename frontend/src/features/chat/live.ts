/**
 * What the events of one run add up to. Pure: the same events in the same order give the same state, however they were
 * split, repeated or interrupted by a reconnect. Time is kept elsewhere (`session.ts`).
 */
import { asideStep, endStep, forgetEnd, startStep, type Step } from "./steps";
import type { Attached, ErrorBody, MessageBody, Reset, RunEvent, RunStatus, Status } from "./types";

export interface LiveRun {
  runId: string;
  /** Names the log that `seq` counts in; null until the server has said it. */
  epoch: string | null;
  /** Sequence number of the last event that is included here. */
  seq: number;
  userSeq: number | null;
  text: string;
  thinking: string;
  /** What was done so far; `text` is what came after it. */
  steps: Step[];
  status: Status | null;
  message: MessageBody | null;
  error: ErrorBody | null;
  closed: RunStatus | null;
  /** An event was missing; nothing more is taken in until the run has been attached to again after `seq`. */
  gap: boolean;
}

export function freshRun(runId: string, epoch: string | null = null): LiveRun {
  return {
    runId,
    epoch,
    seq: 0,
    userSeq: null,
    text: "",
    thinking: "",
    steps: [],
    status: null,
    message: null,
    error: null,
    closed: null,
    gap: false,
  };
}

/** `run` with one event more. What was included before is ignored; what comes too early only sets `gap`. */
export function applyEvent(run: LiveRun, event: RunEvent): LiveRun {
  if (event.run_id !== run.runId || run.closed !== null || event.seq <= run.seq) return run;
  if (event.seq !== run.seq + 1) return run.gap ? run : { ...run, gap: true };
  const next: LiveRun = { ...run, seq: event.seq, gap: false };
  switch (event.type) {
    case "run_started":
      next.epoch = event.data.epoch;
      next.userSeq = event.data.user_message_seq;
      break;
    case "status":
      next.status = event.data;
      break;
    case "thinking":
      next.thinking = run.thinking + event.data.text;
      next.status = null;
      break;
    case "delta":
      next.text = run.text + event.data.text;
      next.status = null;
      break;
    case "tool_call":
      next.steps = [...run.steps, startStep(event.data, run.text)];
      next.text = "";
      break;
    case "tool_result":
      next.steps = endStep(run.steps, event.data);
      break;
    case "steer":
      next.steps = [...run.steps, asideStep(event.data.message)];
      break;
    case "message":
      next.message = event.data.message;
      next.text = event.data.message.content;
      break;
    case "error":
      next.error = event.data;
      break;
    case "close":
      next.closed = event.data.status;
      break;
    default:
      break;
  }
  return next;
}

/** The server goes on after `frame.after`. Another log than before means starting again from nothing. */
export function applyAttached(run: LiveRun, frame: Attached): LiveRun {
  if (run.closed !== null) return run;
  if (run.epoch !== null && run.epoch !== frame.epoch) {
    return { ...freshRun(run.runId, frame.epoch), seq: frame.after };
  }
  return run.epoch === frame.epoch && !run.gap ? run : { ...run, epoch: frame.epoch, gap: false };
}

/** The log no longer holds what is missing: the text as the server has it, and events after it. */
export function applyReset(run: LiveRun, frame: Reset): LiveRun {
  if (run.closed !== null) return run;
  return {
    ...run,
    epoch: frame.epoch,
    seq: frame.partial.seq,
    text: frame.partial.text,
    thinking: frame.partial.seq === 0 ? "" : run.thinking,
    steps: frame.partial.seq === 0 ? [] : run.steps.map(forgetEnd),
    gap: false,
  };
}
