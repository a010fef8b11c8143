// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=outer lines=2}"

// Every element has an index of its own: rows are counted by the loop that decides nothing else of the place.
// CHECK: gather.loop indices(%i)
// CHECK: gather.loop inner(%j)
// CHECK: %sweep = arith.muli %i, %c2{{.*}} : index
// CHECK: memref.prefetch %data[%ahead, %row_line, %j]
func.func @gather(%data: tensor<30x9x40xf32>, %indices: tensor<30x7x40xi64>) -> tensor<30x7x40xf32> {
  %r = gather.gather_elements %data, %indices axis 1 bounds clip : tensor<30x9x40xf32>, tensor<30x7x40xi64> -> tensor<30x7x40xf32>
  func.return %r : tensor<30x7x40xf32>
}
