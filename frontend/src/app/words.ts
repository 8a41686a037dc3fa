/** What the product says where the words depend on what happened. Plain sentences; no jargon; no blame. */

export const words = {
  failed: "Something went wrong on this page",
  runActive: "An answer is still being written here. Your message is kept below.",
  offline: "The connection is away: try again in a moment.",
  changedElsewhere: "Changed elsewhere: this conversation has newer messages. Your text is kept.",
  linkExpired:
    "That sign-in link has been used or has expired. Sign in with your password, or make a new link on the server with `manage.py sign_in_link`.",
  tooLong: (kilobytes: number) =>
    `This message has ${kilobytes.toLocaleString("en")} kB and cannot be sent in one piece: the limit is 900 kB. Shorten it or send it in parts.`,
  announce: {
    started: "The answer has started",
    finished: "The answer is complete",
    stopped: "The answer was stopped",
    failed: "The answer ended before it was complete",
  },
  banner: {
    unreachable: "The server cannot be reached. Trying again by itself.",
    database: "The database is down: nothing can be saved or loaded at the moment.",
    runner: "No runner is working: your message is saved and will be answered when one is back.",
    live: "Live updates are unavailable; the answer goes on and will appear when it is finished.",
    worker: "The background worker is down: housekeeping waits; answers still work.",
    model: "The model cannot be reached: answers will fail until it is back.",
  },
  ended: {
    stopped: "Stopped",
    interrupted: "Interrupted: the answer was cut off before its end.",
    failed: "The answer failed.",
    truncated: "The answer reached its length limit and may be incomplete.",
  },
} as const;
