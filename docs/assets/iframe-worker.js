// Browsers start no workers in pages that are opened as files. There, this class runs the script of a
// worker in a hidden frame, so that the search works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.inner = this.frame.contentWindow
      // The script answers by postMessage, and receives messages as events.
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = this.inner.document.createElement("script")
      script.src = url
      this.loaded = new Promise(resolve => { script.onload = resolve })
      this.inner.document.body.append(script)
    }
    async postMessage(data) {
      await this.loaded
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
