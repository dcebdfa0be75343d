#pragma once
// Query files of dnsperf and resperf: a name and a type in each line, class IN; lines that begin
// with ; are comments. Such a file has no times and no clients, so they are made up:
//
//   query n (from 0) is sent n milliseconds after 2024-01-01T00:00:00Z
//   from 198.18.0.1, port 10000 + n modulo 50000, to 192.0.2.53 port 53 over UDP
//   with id n modulo 65536, RD set as dnsperf does, and no EDNS.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/message.hh"

#include <memory>
#include <string>

namespace reprise::trace {

bool looks_like_dnsperf(Bytes head);

std::unique_ptr<MessageSource> open_dnsperf(std::unique_ptr<ByteStream> stream,
                                            const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
