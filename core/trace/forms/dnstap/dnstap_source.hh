#pragma once
// dnstap files: frame streams (libfstrm), one direction, of content type protobuf:dnstap.Dnstap, as
// servers write them.
//
// A frame holds a query, a response, or a response with its query. Every query is yielded once: the
// query in a response's frame only where no frame of its own came before (among the last 65,536
// queries). Client and upstream side are yielded alike; counters tell how many frames there were of
// each type, e.g. `dnstap_client_query`. ReaderOptions::ports does not matter here: every frame is
// DNS. Connections are not known.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Whether a file begins as a frame stream does. Whether it is dnstap, open_dnstap() says. Needs 12
/// bytes.
bool looks_like_dnstap(Bytes head);

/// Throws TraceError where the stream is of another content or cut before its first frame.
std::unique_ptr<MessageSource> open_dnstap(std::unique_ptr<ByteStream> stream,
                                           const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
