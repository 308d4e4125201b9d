package io.tailrace.api

import io.tailrace.common.Errors
import io.tailrace.progress.ServerSettings

/** A watermark server as options name it. */
private[api] final case class ServerOptions(
    server: Option[String],
    app: Option[String],
    operator: String,
    token: Option[String]
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  def settings: Option[ServerSettings] = server.map { url =>
    if (!url.matches("https?://[^/?#]+/?"))
      throw Errors.watermarkOptionInvalid("server", url, "http://host:port")
    val application =
      app.getOrElse(throw Errors.watermarkOptionInvalid("app", "missing", "a name beside server"))
    // It is a part of the address, where servers take an encoded slash for a slash.
    if (!application.matches("[^/\\p{Cntrl}]{1,200}"))
      throw Errors.watermarkOptionInvalid("app", application, "1 to 200 characters, no / among them")
    ServerSettings(url, application, operator, token)
  }
}
