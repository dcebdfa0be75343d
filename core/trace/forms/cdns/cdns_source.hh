#pragma once
// C-DNS files (RFC 8618), version 1.x: queries and responses rebuilt from blocks of shared tables.
//
// One block is in memory at a time, at most 256 MiB of it. Within a block messages come in the
// order of their times. A query's bytes are as exact as C-DNS allows: header, questions, EDNS and
// any extra sections are rebuilt; what a file does not hold (storage hints) has a default and a
// counter, and `cdns_size_differs` counts queries whose rebuilt size is not the recorded one.
// Responses have header and question only. ReaderOptions::ports does not matter here. Connections
// are not known.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Whether a file begins as C-DNS does: an array whose first item is the text "C-DNS". Needs 7
/// bytes.
bool looks_like_cdns(Bytes head);

/// Throws TraceError where the preamble is cut, malformed or of an unknown version.
std::unique_ptr<MessageSource> open_cdns(std::unique_ptr<ByteStream> stream,
                                         const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
