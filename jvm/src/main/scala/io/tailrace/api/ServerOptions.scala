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
    ServerSettings(url, application, operator, token)
  }
}
