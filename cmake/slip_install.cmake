# SPDX-License-Identifier: Apache-2.0
# What `make install` lays down: both libraries, headers, the slip command, manual page, pkg-config files and the CMake package. The result can be moved.
include(CMakePackageConfigHelpers)

set(slip_libraries slipstream)
if(TARGET slipc)
  list(APPEND slip_libraries slipc)
  set_target_properties(slipc PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
install(TARGETS ${slip_libraries} EXPORT SlipstreamTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/slipstream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT SlipstreamTargets NAMESPACE Slipstream:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Slipstream)

# In the build tree the libraries have the names that users know.
foreach(library ${slip_libraries})
  add_library(Slipstream::${library} ALIAS ${library})
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/SlipstreamConfig.cmake.in ${PROJECT_BINARY_DIR}/SlipstreamConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Slipstream)
# Before 1.0 a minor version may break.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SlipstreamConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SlipstreamConfig.cmake ${PROJECT_BINARY_DIR}/SlipstreamConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Slipstream)

file(RELATIVE_PATH slip_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" slip_pc_prefix ${slip_pc_prefix})
foreach(library ${slip_libraries})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(TARGET slip)
  set_target_properties(slip PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS slip RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/docs/slip.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The manual, which sentences of the library and the command point to; why it is built this way stays with the source.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN design EXCLUDE PATTERN abi EXCLUDE)
