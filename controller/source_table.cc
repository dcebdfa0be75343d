#include "controller/source_table.hh"

#include "core/base/address.hh"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

namespace reprise::controller {

namespace {

constexpr std::uint64_t kRoom = 256UL << 10U; ///< a full buffer

} // namespace

SourceTable::SourceTable(const std::string& path) : file_(path, AppendFile::Existing::kReplace) {
    file_.append("id,address\n");
    file_.flush();
}

std::uint32_t SourceTable::id_of(const IpAddress& address) {
    const auto [id, fresh] = ids_.find_or_add(address, size());
    if (fresh) {
        line_.clear();
        fmt::format_to(std::back_inserter(line_), "{},{}\n", id, address.text());
        file_.append(line_);
    }
    return id;
}

void SourceTable::flush() {
    if (std::exchange(flushed_, size()) != size()) {
        file_.flush();
        file_.reserve(kRoom);
    }
}

} // namespace reprise::controller
