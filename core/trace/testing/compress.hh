#pragma once
// Compressed traces for tests.

#include "core/trace/testing/packets.hh"

#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <sys/stat.h>

namespace reprise::trace::test {

struct ArchiveFree {
    void operator()(archive* a) const { archive_write_free(a); }
};

/// Compresses with one of libarchive's filters by name: gzip, bzip2, xz, zstd, lz4.
inline Buffer compress(const Buffer& plain, const std::string& filter) {
    Buffer out(plain.size() + 65'536);
    size_t used = 0;
    const std::unique_ptr<archive, ArchiveFree> a(archive_write_new());
    archive_write_add_filter_by_name(a.get(), filter.c_str());
    archive_write_set_format_raw(a.get());
    archive_write_set_bytes_per_block(a.get(), 0);
    archive_write_open_memory(a.get(), out.data(), out.size(), &used);
    archive_entry* entry = archive_entry_new();
    archive_entry_set_filetype(entry, S_IFREG);
    archive_write_header(a.get(), entry);
    archive_entry_free(entry);
    archive_write_data(a.get(), plain.data(), plain.size());
    archive_write_close(a.get());
    out.resize(used);
    return out;
}

inline const std::array<std::string, 5> kFilters{"gzip", "bzip2", "xz", "zstd", "lz4"};

} // namespace reprise::trace::test
