/** The transcript as rows. A row keeps its key from the moment of sending until long after it is stored. */
import { headOf } from "./state";
import { addStored, isStep, type Step } from "./steps";
import type { Failure, MessageBody, Pending, Thought } from "./types";

export interface QuestionRow {
  kind: "question";
  key: string;
  number: number;
  text: string;
  sending: boolean;
}

export interface AnswerRow {
  kind: "answer";
  key: string;
  number: number;
  /** Null while it is being written, and when nothing was stored. */
  message: MessageBody | null;
  /** True while events may still change it. */
  live: boolean;
  failure: Failure | null;
  thought: Thought | null;
  /** The calls on the way to it, as far as they are stored. */
  steps: Step[];
  /** The text to send again; null when sending it again makes no sense here. */
  question: string | null;
}

export type Row = QuestionRow | AnswerRow;

export interface RowsInput {
  messages: MessageBody[];
  failures: Record<number, Failure>;
  thoughts: Record<string, Thought>;
  pending: Pending | null;
  /** The running answer: its id, and the seq of its question when that is known. */
  live: { runId: string; userSeq: number | null } | null;
}

/** Ascending. The messages of a step have no row of their own: they belong to the answer of their turn. */
export function assembleRows(input: RowsInput): Row[] {
  const { messages, failures, thoughts, pending, live } = input;
  const rows: Row[] = [];
  let question: MessageBody | null = null;
  let answered = true;
  let steps: Step[] = [];

  const unanswered = (isLast: boolean): void => {
    if (answered || !question) return;
    const running = isLast && live !== null;
    const failure = failures[question.seq] ?? null;
    if (!running && !failure) return;
    rows.push({
      kind: "answer",
      key: `a${question.turn}`,
      number: question.seq + 1,
      message: null,
      live: running,
      failure: running ? null : failure,
      thought: failure ? (thoughts[failure.runId] ?? null) : null,
      steps,
      question: question.content,
    });
    answered = true;
  };

  for (const message of messages) {
    if (isStep(message)) {
      steps = addStored(steps, message);
    } else if (message.role === "user") {
      unanswered(false);
      rows.push({
        kind: "question",
        key: `q${message.turn}`,
        number: message.seq,
        text: message.content,
        sending: false,
      });
      question = message;
      answered = false;
      steps = [];
    } else {
      rows.push({
        kind: "answer",
        key: answered ? `a${message.turn}:${message.seq}` : `a${message.turn}`,
        number: message.seq,
        message,
        live: live !== null && message.run_id === live.runId,
        failure: message.status === "complete" || !question ? null : (failures[question.seq] ?? null),
        thought: message.run_id ? (thoughts[message.run_id] ?? null) : null,
        steps,
        question: question?.content ?? null,
      });
      answered = true;
      steps = [];
    }
  }
  unanswered(true);

  const turn = (messages.at(-1)?.turn ?? 0) + 1;
  const head = headOf(messages);
  if (pending) {
    rows.push({ kind: "question", key: `q${turn}`, number: head + 1, text: pending.content, sending: true });
  }
  const shown = rows.at(-1);
  if (pending || (live && !(shown?.kind === "answer" && shown.live))) {
    rows.push({
      kind: "answer",
      key: `a${turn}`,
      number: head + (pending ? 2 : 1),
      message: null,
      live: true,
      failure: null,
      thought: null,
      steps: [],
      question: null,
    });
  }
  return rows;
}
