// Asks the server this page came from, and nobody else.

const KEY = "supdocnade-token";
const PATIENCE = 8; // How often a busy server is asked again.

export class Refused extends Error {
  constructor(problem, retryAfter) {
    super(problem.detail);
    this.code = problem.code;
    this.retryAfter = retryAfter;
  }
}

let asking = null;

function askForToken(problem) {
  const dialog = document.getElementById("token-dialog");
  const note = document.getElementById("token-problem");
  note.hidden = !problem;
  note.textContent = problem ?? "";
  asking ??= new Promise((resolve) => {
    document.getElementById("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, document.getElementById("token").value);
      dialog.close();
      asking = null;
      resolve();
    }, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}

// Waits, unless it is stopped.
const pause = (seconds, stop) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  stop?.addEventListener("abort", () => {
    clearTimeout(timer);
    reject(stop.reason);
  }, { once: true });
});

async function request(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused({ code: "unreachable", detail: "The server cannot be reached." });
  }
  if (response.status === 401) {
    if (sessionStorage.getItem(KEY) === token) {
      sessionStorage.removeItem(KEY);
      await askForToken(token ? "That token is wrong." : null);
    }
    return request(path, options);
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({ code: "unknown", detail: `The server answered ${response.status}.` }));
    throw new Refused(problem, Number(response.headers.get("Retry-After")) || 0);
  }
  return response;
}

export const get = async (path) => (await request(path)).json();

// Sends one photograph; waits for a busy server, and says so; ends when it is stopped.
export async function send(path, file, { onBusy = () => {}, stop } = {}) {
  for (let turn = 1; ; turn += 1) {
    const form = new FormData();
    form.append("images", file, file.name || "pasted image");
    try {
      return await (await request(path, { method: "POST", body: form, signal: stop })).json();
    } catch (error) {
      if (!error.retryAfter || turn === PATIENCE) throw error;
      onBusy(error.retryAfter);
      await pause(error.retryAfter, stop);
    }
  }
}

// Shows a picture of the server; with a token it has to be fetched, since pictures carry none.
export function picture(image, path) {
  if (!sessionStorage.getItem(KEY)) {
    image.src = path;
    return image;
  }
  request(path).then((response) => response.blob()).then((blob) => {
    image.src = URL.createObjectURL(blob);
    image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
  }).catch(() => {});
  return image;
}
