// Requests to the server that this page came from.

const TOKEN_KEY = "supdocnade-token";
const MAX_ATTEMPTS = 8; // For a request that a busy server refuses.

export class RequestError extends Error {
  constructor(problem, retryAfter) {
    super(problem.detail);
    this.code = problem.code;
    this.retryAfter = retryAfter;
  }
}

let tokenPrompt = null;

function promptForToken(problem) {
  const dialog = document.getElementById("token-dialog");
  const message = document.getElementById("token-problem");
  message.hidden = !problem;
  message.textContent = problem ?? "";
  tokenPrompt ??= new Promise((resolve) => {
    document.getElementById("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN_KEY, document.getElementById("token").value);
      dialog.close();
      tokenPrompt = null;
      resolve();
    }, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return tokenPrompt;
}

const pause = (seconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal?.addEventListener("abort", () => {
    clearTimeout(timer);
    reject(signal.reason);
  }, { once: true });
});

async function request(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RequestError({ code: "unreachable", detail: "The server cannot be reached." });
  }
  if (response.status === 401) {
    if (sessionStorage.getItem(TOKEN_KEY) === token) {
      sessionStorage.removeItem(TOKEN_KEY);
      await promptForToken(token ? "This token is wrong." : null);
    }
    return request(path, options);
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({ code: "unknown", detail: `The server returned status ${response.status}.` }));
    throw new RequestError(problem, Number(response.headers.get("Retry-After")) || 0);
  }
  return response;
}

export const get = async (path) => (await request(path)).json();

export const getBlob = async (path) => (await request(path)).blob();

export const post = async (path, value) =>
  (await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) })).json();

// Sends one photograph and reads the result as "json" or "blob"; retries while the server is busy, until the signal aborts.
export async function send(path, file, { onBusy = () => {}, signal, read = "json" } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const form = new FormData();
    form.append("images", file, file.name || "pasted image");
    try {
      return await (await request(path, { method: "POST", body: form, signal }))[read]();
    } catch (error) {
      if (!error.retryAfter || attempt === MAX_ATTEMPTS) throw error;
      onBusy(error.retryAfter);
      await pause(error.retryAfter, signal);
    }
  }
}

// Loads a picture of the server into an image. With a token it is fetched, since image requests carry no headers.
export function loadPicture(image, path) {
  if (!sessionStorage.getItem(TOKEN_KEY)) {
    image.src = path;
    return image;
  }
  request(path).then((response) => response.blob()).then((blob) => {
    image.src = URL.createObjectURL(blob);
    image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
  }).catch(() => {});
  return image;
}
